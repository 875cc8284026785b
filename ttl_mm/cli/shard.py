"""``ttl shard``: images into tar shards."""

import argparse
from pathlib import Path

from ttl_mm import arguments
from ttl_mm.cli._options import FLAG, add_out
from ttl_mm.errors import counted

HELP = 'write images into tar shards, for many images or slow disks'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text = 'a folder of any depth, a text file with one path a line, or several of these'
    add('source', nargs='+', metavar='IMAGES', type=arguments.images, help=text)
    add_out(parser, 'DIR', 'the shards', 'shards')
    text = 'bytes of a shard at most, such as 500MB (default: 1GB)'
    add('--size', type=arguments.byte_size, default=10**9, metavar='BYTES', help=text)
    text = 'also write the class of each image; its first folder is the class'
    add('--labeled', **FLAG, help=text)
    text = 'write them in a random order, the same every time; for data larger than a cache'
    add('--shuffle', **FLAG, help=text)


def run(args: argparse.Namespace) -> None:
    import numpy as np

    from ttl_mm.datasets.image_folder import classes_of
    from ttl_mm.datasets.permutation import permuted
    from ttl_mm.datasets.shard_writer import shard_files, split_into_shards, write_shard
    from ttl_mm.evaluation.run import Progress
    from ttl_mm.outputs import check_folder, mark_folder
    from ttl_mm.planning.image_sources import find_images

    found = find_images(args.source)
    names, out = list(found.names()), Path(args.out)
    classes, labels = classes_of(names) if args.labeled else (None, None)
    if args.shuffle:
        order = permuted(np.arange(len(names)), len(names), (0,))
        names = [names[i] for i in order.tolist()]
        labels = labels if labels is None else labels[order]
    check_folder(out, 'ttl shard', ['*.tar', '*.tar.names', 'classes.txt'])
    out.mkdir(parents=True, exist_ok=True)
    mark_folder(out, 'ttl shard')
    done = written = count = 0
    progress = Progress('shard')
    for count, files in enumerate(
        split_into_shards(shard_files(found.root, names, labels), args.size), 1
    ):
        written += write_shard(out / f'images-{count - 1:06d}.tar', files)
        done += len(files)
        progress(done, len(names))
    if classes is not None:
        (out / 'classes.txt').write_text('\n'.join(classes) + '\n')
    already = f' ({count - written:,} already there)' if written < count else ''
    print(f'{counted(len(names), "image")} in {counted(count, "shard")}{already}: {out}')
