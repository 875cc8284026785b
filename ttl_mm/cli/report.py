"""``ttl report``: logs of pre-training and results of evaluations on one page."""

import argparse
from pathlib import Path

from ttl_mm.arguments import input_path, integer, number
from ttl_mm.arguments import text as some_text
from ttl_mm.cli._options import FLAG, add_out, add_overwrite, add_renamed
from ttl_mm.outputs import check_folder, mark_folder

WRITTEN = ('index.html', '*.png')
HELP = 'write one page about runs: learning efficiency, and the results of evaluations'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = 'work dir of a run (pre-training, linear, semi-supervised, detection), or a folder or '
    text += 'file with results of `ttl eval` or `ttl reid eval`'
    parser.add_argument('runs', nargs='+', type=input_path, metavar='RUN_OR_RESULTS', help=text)
    add_out(parser, 'DIR', 'the page and its figures', 'report')
    add_overwrite(parser)
    parser.add_argument('--title', type=some_text, help='heading of the page')
    what = 'accuracy in %% for the time-to-target table'
    parser.add_argument('--target', type=number(0, 100), help=what)
    text = 'show nearest neighbors under the newest checkpoint of the first run (runs its config)'
    parser.add_argument('--neighbors', **FLAG, help=text)
    parser.add_argument('--no-paper', **FLAG, help="leave out the paper's published results")
    text = (
        'follow running jobs: write the page again when they log, until they end; the page loads '
    )
    text += 'itself again after as many seconds (default: 30)'
    seconds = integer(1, 86_400)
    parser.add_argument('--watch', type=seconds, nargs='?', const=30, metavar='SECONDS', help=text)
    add_renamed(parser, '--neighbours', '--neighbors')


def run(args: argparse.Namespace) -> None:
    from ttl_mm.errors import printable
    from ttl_mm.report import write_report
    from ttl_mm.report.watch import follow

    check_folder(args.out, 'ttl report', WRITTEN, args.overwrite)

    def write(refresh: int = 0) -> Path:
        extra = []
        if args.neighbors:
            from ttl_mm.report.neighbors import neighbors_section

            extra = [neighbors_section(args.runs[0])]
        paper = not args.no_paper
        page = write_report(args.runs, args.out, extra, args.title, args.target, paper, refresh)
        mark_folder(args.out, 'ttl report')
        return page

    pages = follow(args.runs, write, args.watch) if args.watch else iter([write()])
    print(printable(str(next(pages).resolve())), flush=True)
    for _ in pages:  # the same page again
        pass
