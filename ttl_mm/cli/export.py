"""``ttl export``: a backbone for another tool, checked to compute the same there."""

from argparse import ArgumentParser, Namespace

from ttl_mm.arguments import text as some_text
from ttl_mm.arguments import weights
from ttl_mm.cli._options import add_out, add_overwrite

HELP = 'write a backbone for mmpretrain, mmdet, torchvision, timm, detectron2, safetensors or ONNX'
FORMATS = (
    'plain',
    'mmpretrain',
    'mmdet',
    'torchvision',
    'timm',
    'detectron2',
    'safetensors',
    'onnx',
)


def add_arguments(parser: ArgumentParser) -> None:
    what = 'a file in any known layout, or ttl_mm://NAME'
    parser.add_argument('checkpoint', type=weights, help=what)
    text = ', '.join(FORMATS)
    parser.add_argument('--to', required=True, choices=FORMATS, metavar='FORMAT', help=text)
    add_out(parser, 'FILE', 'the backbone', 'next to the checkpoint, named after the format')
    add_overwrite(parser)
    what = 'take the part below this name, e.g. target_backbone.'
    parser.add_argument('--prefix', type=some_text, help=what)


def run(args: Namespace) -> None:
    from ttl_mm.export import export_backbone, usage_hint

    path = export_backbone(args.checkpoint, args.to, args.out, args.prefix, args.overwrite)
    print(f'{path}  (computes the same as before on random images)')
    print(f'load it with: {usage_hint(path, args.to, args.checkpoint)}')
