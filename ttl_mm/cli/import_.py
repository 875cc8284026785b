"""``ttl import``: a backbone from another tool, for ours."""

from ttl_mm.cli._options import add_out

HELP = "take the backbone out of another tool's checkpoint"


def add_arguments(parser):
    parser.add_argument(
        'checkpoint',
        help="the authors' files, MoCo, OpenSelfSup, mmselfsup, mmpretrain, mmdet, torchvision, "
        'timm, detectron2 (.pkl), .safetensors, .onnx',
    )
    add_out(parser, 'FILE', 'the backbone, .pth or .safetensors', 'next to the checkpoint')
    parser.add_argument(
        '--prefix', help='take the part below this name (default: the online backbone)'
    )


def run(args) -> int:
    from ttl_mm.checkpoint.layouts import architecture
    from ttl_mm.checkpoint.load import load_backbone_state
    from ttl_mm.export import export_backbone

    to = 'safetensors' if args.out and args.out.endswith('.safetensors') else 'mmpretrain'
    path = export_backbone(args.checkpoint, to, args.out, args.prefix)
    state = load_backbone_state(path)
    name = architecture({name: tuple(tensor.shape) for name, tensor in state.items()})
    print(f'{path}  ({name}, {len(state)} tensors)')
    return 0
