"""``ttl demo``: pre-training on images that need no download, and a page about it."""

import argparse
import os

from ttl_mm.arguments import integer
from ttl_mm.cli._options import add_out
from ttl_mm.compat.torch_environment import set_torch_environment

HELP = 'pre-train on digits on photographs, in minutes on a CPU, and write a page about it'
CONFIG = 'digits/ttl_soft_r18_scenes_1xb64_12e.py'
TITLE = 'Digits on photographs, learned without labels'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_out(parser, 'DIR', 'the run and its page', 'work_dirs/demo')
    text = 'length of the run (default: 12); a shorter one shows the way, not the result'
    parser.add_argument('--epochs', type=integer(1), metavar='N', help=text)


def run(args: argparse.Namespace) -> None:
    set_torch_environment(os.environ)
    from ttl_mm.engine.runner import launch
    from ttl_mm.files.recipes import recipes_root
    from ttl_mm.report import write_report
    from ttl_mm.report.neighbors import neighbors_section

    options = {} if args.epochs is None else {'train_cfg.max_epochs': args.epochs}
    config = str(recipes_root() / 'configs' / CONFIG)
    launch.train(config, work_dir=args.out, resume='auto', cfg_options=options)
    section = neighbors_section(args.out)
    page = write_report([args.out], f'{args.out}/report', [section], TITLE, with_paper=False)
    (table,) = section.tables
    for row in [table.header, *table.rows]:
        print(f'{row[0]:<24}' + ''.join(f'{cell:>14}' for cell in row[1:]))
    print(page.resolve())
