"""``ttl import``: a backbone from another tool, for ours."""

from argparse import ArgumentParser, Namespace

from ttl_mm.arguments import text as some_text
from ttl_mm.arguments import weights
from ttl_mm.cli._options import add_out, add_overwrite

HELP = "take the backbone out of another tool's checkpoint"


def add_arguments(parser: ArgumentParser) -> None:
    text = "of the paper's authors, MoCo, OpenSelfSup, mmselfsup, mmpretrain, mmdet, torchvision, "
    text += 'timm, detectron2 (.pkl), .safetensors, .onnx'
    parser.add_argument('checkpoint', type=weights, help=text)
    add_out(parser, 'FILE', 'the backbone, .pth or .safetensors', 'next to the checkpoint')
    add_overwrite(parser)
    text = 'take the part below this name (default: the online backbone)'
    parser.add_argument('--prefix', type=some_text, help=text)


def run(args: Namespace) -> None:
    from ttl_mm.checkpoint.architecture import read_architecture
    from ttl_mm.checkpoint.layouts import architecture
    from ttl_mm.checkpoint.load import load_backbone_state
    from ttl_mm.export import export_backbone

    to = 'safetensors' if args.out and args.out.endswith('.safetensors') else 'mmpretrain'
    path = export_backbone(args.checkpoint, to, args.out, args.prefix, args.overwrite)
    state = load_backbone_state(path)
    declared = read_architecture(path)
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    name = declared.network if declared is not None else architecture(shapes)
    print(f'{path}  ({name}, {len(state)} tensors)')
