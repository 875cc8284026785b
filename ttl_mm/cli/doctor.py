"""``ttl doctor``: can this installation run, and if not, what has to be changed?"""

import json
import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from ttl_mm.arguments import input_file, integer, output_file
from ttl_mm.cli._options import add_shared, add_speed
from ttl_mm.compat.torch_environment import set_torch_environment
from ttl_mm.errors import counted

HELP = 'check the installation, or with --train the machine; exits 1 if something is broken'


def add_arguments(parser: ArgumentParser) -> None:
    add_shared(parser, '--data', default='.', help='folder whose disk is checked (default: .)')
    parser.add_argument(
        '--train',
        nargs='?',
        const='',
        metavar='CONFIG',
        type=lambda value: value and input_file(value),
        help='run a recipe at small size on the devices and check what it does, in about two '
        'minutes (default: the main recipe)',
    )
    text = 'with --train: how many GPUs, or CPU processes (default: all GPUs, or 2 processes)'
    parser.add_argument('--gpus', type=integer(1, 1024), metavar='N', help=text)
    text = 'with --train: also write all findings as JSON, for a bug report'
    parser.add_argument('--out', type=output_file, metavar='FILE', help=text)
    add_speed(parser)


def run(args: Namespace) -> int:
    if args.train is not None:
        return test_machine(args)
    from ttl_mm.cli._installation import diagnose

    marks = {'ok': 'ok     ', 'warning': 'warning', 'failure': 'FAILURE'}
    findings = diagnose(args.data)
    for finding in findings:
        print(f'{marks[finding.level]}  {finding.subject:<12} {finding.text}')
    failures = sum(finding.level == 'failure' for finding in findings)
    warnings = sum(finding.level == 'warning' for finding in findings)
    print(f'{failures} failures, {warnings} warnings')
    return 1 if failures else 0


def test_machine(args: Namespace) -> int:
    """Train a small recipe on the devices of this machine; one line per check."""
    set_torch_environment(os.environ)
    from ttl_mm.selftest import FAIL, run_selftest

    options = dict(amp=args.amp, compile=args.compile)
    options['checkpoint_activations'] = args.checkpoint_activations
    report = run_selftest(args.train, args.gpus, args.data, **options)
    for check in report.checks:
        remedy = f'. Remedy: {check.remedy}' if check.remedy else ''
        print(f'{check.status:<14}  {check.name:<26}  {check.found}{remedy}')
    failures = sum(check.status == FAIL for check in report.checks)
    machine = report.machine
    devices = ', '.join(machine['gpus']) or counted(machine['cores'], 'core')
    print(
        f'{failures} of {len(report.checks)} checks failed: {machine["config"]}, '
        f'{counted(machine["ranks"], "process", "processes")} on {devices}, {report.seconds:.0f} s'
    )
    if args.out:
        Path(args.out).write_text(json.dumps(report.as_dict(), indent=1))
    return 1 if failures else 0
