"""``ttl report``: the logs of one or several runs to one page."""

import argparse
from pathlib import Path

HELP = 'write a learning-efficiency report from the logs of one or several runs'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('runs', nargs='+', metavar='RUN', help='work dir of a run')
    parser.add_argument('--out', default='report', help='folder of the page (default: report)')
    parser.add_argument('--title', help='heading of the page')
    parser.add_argument('--target', type=float, help='accuracy in %% for the time-to-target table')
    parser.add_argument(
        '--neighbours',
        action='store_true',
        help="show nearest neighbours for the first run's newest checkpoint; runs its config",
    )
    parser.add_argument(
        '--no-paper', action='store_true', help="leave out the paper's published results"
    )


def run(args: argparse.Namespace) -> None:
    from ttl_mm.report import write_report

    extra = []
    if args.neighbours:
        from ttl_mm.report.neighbors import neighbours_section

        extra = [neighbours_section(args.runs[0])]
    page = write_report(
        args.runs,
        args.out,
        extra_sections=extra,
        title=args.title,
        target=args.target,
        with_paper=not args.no_paper,
    )
    print(Path(page).resolve())
