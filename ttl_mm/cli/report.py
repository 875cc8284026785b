"""``ttl report``: logs of pre-training and results of evaluations on one page."""

import argparse

from ttl_mm.cli._options import FLAG, add_out, add_renamed

HELP = 'write one page about runs: learning efficiency, and the results of evaluations'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = 'work dir of a run (pre-training, linear, semi-supervised, detection), or a folder or '
    text += 'file with results of `ttl eval` or `ttl reid eval`'
    parser.add_argument('runs', nargs='+', metavar='RUN_OR_RESULTS', help=text)
    add_out(parser, 'DIR', 'the page and its figures', 'report')
    parser.add_argument('--title', help='heading of the page')
    parser.add_argument('--target', type=float, help='accuracy in %% for the time-to-target table')
    text = 'show nearest neighbors under the newest checkpoint of the first run (runs its config)'
    parser.add_argument('--neighbors', **FLAG, help=text)
    parser.add_argument('--no-paper', **FLAG, help="leave out the paper's published results")
    add_renamed(parser, '--neighbours', '--neighbors')


def run(args: argparse.Namespace) -> None:
    from ttl_mm.report import write_report

    extra = []
    if args.neighbors:
        from ttl_mm.report.neighbors import neighbors_section

        extra = [neighbors_section(args.runs[0])]
    page = write_report(args.runs, args.out, extra, args.title, args.target, not args.no_paper)
    print(page.resolve())
