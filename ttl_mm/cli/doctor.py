"""``ttl doctor``: can this installation run, and if not, what has to be changed?"""

from argparse import ArgumentParser, Namespace

from ttl_mm.cli._options import add_shared

HELP = 'check the installation; exits 1 if something is broken'


def add_arguments(parser: ArgumentParser) -> None:
    add_shared(parser, '--data', default='.', help='folder whose disk is checked (default: .)')


def run(args: Namespace) -> int:
    from ttl_mm.cli._installation import diagnose

    marks = {'ok': 'ok     ', 'warning': 'warning', 'failure': 'FAILURE'}
    findings = diagnose(args.data)
    for finding in findings:
        print(f'{marks[finding.level]}  {finding.subject:<12} {finding.text}')
    failures = sum(finding.level == 'failure' for finding in findings)
    warnings = sum(finding.level == 'warning' for finding in findings)
    print(f'{failures} failures, {warnings} warnings')
    return 1 if failures else 0
