"""``ttl export``: a backbone for another tool, checked to compute the same there."""

from argparse import ArgumentParser, Namespace

from ttl_mm.cli._options import add_out

HELP = 'write a backbone for mmpretrain, mmdet, torchvision, timm, detectron2, safetensors or ONNX'
FORMATS = ('mmpretrain', 'mmdet', 'torchvision', 'timm', 'detectron2', 'safetensors', 'onnx')


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument('checkpoint', help='a file in any known layout, or ttl_mm://NAME')
    text = ', '.join(FORMATS)
    parser.add_argument('--to', required=True, choices=FORMATS, metavar='FORMAT', help=text)
    add_out(parser, 'FILE', 'the backbone', 'next to the checkpoint, named after the format')
    parser.add_argument('--prefix', help='take the part below this name, e.g. target_backbone.')


def run(args: Namespace) -> None:
    from ttl_mm.export import export_backbone, usage_hint

    path = export_backbone(args.checkpoint, args.to, args.out, args.prefix)
    print(f'{path}  (computes the same as mmpretrain on random images)')
    print(f'load it with: {usage_hint(path, args.to)}')
