"""``ttl export``: a backbone for another tool, checked to compute the same there."""

from argparse import ArgumentParser, Namespace

from ttl_mm.arguments import input_file, weights
from ttl_mm.arguments import text as some_text
from ttl_mm.cli._options import add_out, add_overwrite
from ttl_mm.errors import UserError

HELP = 'write a backbone for torchvision, timm, mmpretrain, mmdet, detectron2, ONNX or the hub'
HUB = 'huggingface'  # a folder: config, weights and model card
FORMATS = (
    'plain',
    'mmpretrain',
    'mmdet',
    'torchvision',
    'timm',
    'detectron2',
    'safetensors',
    'onnx',
    HUB,
)


def add_arguments(parser: ArgumentParser) -> None:
    what = 'a file in any known layout, or ttl_mm://NAME'
    parser.add_argument('checkpoint', type=weights, help=what)
    text = ', '.join(FORMATS)
    parser.add_argument('--to', required=True, choices=FORMATS, metavar='FORMAT', help=text)
    default = 'next to the checkpoint, named after the format'
    add_out(parser, 'FILE', 'the backbone; a folder for huggingface', default)
    add_overwrite(parser)
    what = 'take the part below this name, e.g. target_backbone.'
    parser.add_argument('--prefix', type=some_text, help=what)
    what = 'figures.json of `ttl eval` about this checkpoint, for the card of huggingface'
    parser.add_argument(
        '--figures', nargs='+', default=[], type=input_file, metavar='FILE', help=what
    )


def run(args: Namespace) -> None:
    from ttl_mm.export import export_backbone, export_to_hub, import_remark, usage_hint

    if args.to == HUB:
        options = {'prefix': args.prefix, 'figures': args.figures, 'overwrite': args.overwrite}
        folder = export_to_hub(args.checkpoint, args.out, **options)
        names = ', '.join(sorted(path.name for path in folder.glob('[!.]*')))
        print(f'{folder}: {names}  (computes the same as before on random images)')
        print(f'upload it with: hf upload USER/{folder.name} {folder}')
        return
    if args.figures:
        raise UserError('--figures: only the card of --to huggingface shows them.')
    path = export_backbone(args.checkpoint, args.to, args.out, args.prefix, args.overwrite)
    print(f'{path}  (computes the same as before on random images)')
    hint = usage_hint(path, args.to, args.checkpoint)
    print(f'load it with: {hint}')
    if remark := import_remark(hint):
        print(remark)
