"""``ttl embed``: features of images without labels."""

import argparse
from pathlib import Path

from ttl_mm import arguments
from ttl_mm.cli._images import add_overwrite, add_weights, open_embedding
from ttl_mm.cli._options import add_out
from ttl_mm.errors import counted

HELP = 'write the features of images without labels to a file'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = 'a folder of any depth, a text file with one path a line, or several of these'
    parser.add_argument('source', nargs='+', metavar='IMAGES', type=arguments.images, help=text)
    add_weights(parser, required=True)
    content = 'the features: .safetensors, .npy (paths beside it), .csv or .parquet'
    add_out(parser, 'FILE', content, 'embeddings.safetensors')
    add_overwrite(parser)


def run(args: argparse.Namespace) -> None:
    import ttl_mm.registry  # noqa: F401  isort: skip
    from mmengine.dist import is_main_process

    from ttl_mm.errors import printable
    from ttl_mm.explore.embedding import write_embedding
    from ttl_mm.explore.projection import project
    from ttl_mm.explore.tables import check_format
    from ttl_mm.outputs import claim_file

    out = Path(args.out)
    check_format(out)
    table = out.suffix != '.safetensors'
    if table:  # an unfinished or finished feature file of ours is continued or checked instead
        claim_file(out, args.overwrite)
    cache = out.with_name(f'{out.name}.features') if table else out
    embedding = open_embedding(args, cache, replace=table or args.overwrite)
    if not is_main_process():
        return
    if table:
        write_embedding(embedding, out, project(embedding.features))
        cache.unlink()
    name = printable(str(out))
    print(
        f'{counted(len(embedding), "image")}, {embedding.features.shape[1]} features each: {name}'
    )
    if out.suffix == '.parquet':
        print(f'To look at it with another tool: embedding-atlas {name} --x x --y y')
