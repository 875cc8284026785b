"""``ttl backbones``: the networks that ``--backbone`` takes."""

import argparse

from ttl_mm import arguments
from ttl_mm.cli._options import FLAG
from ttl_mm.errors import UserError

HELP = 'list the networks of timm, torchvision and mmpretrain that --backbone takes'
MOST = 30  # networks that are built to tell their size; each takes about a second


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = 'part of a name, or a pattern such as "timm/vit_*_patch16_224" (default: all names)'
    parser.add_argument('pattern', nargs='?', metavar='PATTERN', type=arguments.text, help=text)
    text = f'show weights and sizes of more than {MOST} networks too: about a second for each'
    parser.add_argument('--all', **FLAG, help=text)


def run(args: argparse.Namespace) -> None:
    import ttl_mm.registry  # noqa: F401  isort: skip
    from ttl_mm.models.backbones import matching_names, nearest, network_summary

    names = matching_names(args.pattern)
    if not names:
        raise UserError(f'no network is called {args.pattern}: {nearest(args.pattern)}.')
    if len(names) > MOST and not args.all:
        print(*names, sep='\n')
        print(
            f'{len(names)} networks. For at most {MOST} of them, weights and sizes are shown: '
            'give a narrower PATTERN, or --all.'
        )
        return
    width = max(map(len, names))
    print(f'{"network":{width}}  {"weights":>9}  {"features":>8}  images')
    for name in names:
        print(f'{name:{width}}  {network_summary(name)}', flush=True)
