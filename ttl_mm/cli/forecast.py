"""``ttl forecast``: where a run will end, from its first part."""

import argparse

from ttl_mm.arguments import input_folder, integer

HELP = 'forecast where a run will end from its first part, and what a longer one would bring'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = 'work dir of a run, finished or not'
    parser.add_argument('run_dir', type=input_folder, metavar='RUN', help=text)
    text = "length of the schedule (default: that of the run's config)"
    parser.add_argument('--steps', type=integer(1), metavar='N', help=text)


NAMES = {0.5: 'half the schedule', 1.0: 'this schedule', 2.0: 'twice the schedule'}


def run(args: argparse.Namespace) -> None:
    from ttl_mm.report.axes import duration
    from ttl_mm.report.forecasting import forecast_run
    from ttl_mm.report.logs import load_run

    found, hours = forecast_run(load_run(args.run_dir), args.steps)
    print(f'{found.name} now: {found.now:.1f} %, after {found.seen:.0%} of the schedule')
    for length, end in found.ends.items():
        bounds = f'{end.expected:.1f} % ({end.low:.1f} to {end.high:.1f})'
        print(f'  {NAMES[length]:18}  {bounds:22}  {duration(hours[length])} in all')
    print(f'{found.verdict}: {found.evidence}.')
    print('Intervals hold the outcome in 80 of 100 cases of the study: docs/judge.md.')
