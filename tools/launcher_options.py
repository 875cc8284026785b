"""What tools/train.py and tools/test.py share; not a tool of its own."""

import os
from pathlib import Path

from ttl_mm.arguments import Parser, add_cfg_options, output_folder
from ttl_mm.compat.torch_environment import set_torch_environment

set_torch_environment(os.environ)


def parse(parser: Parser, example: str) -> dict:
    """Add the common options and parse: the arguments of ``train`` or ``run_test``."""
    add = parser.add_argument
    text = 'for logs and checkpoints; work_dirs/CONFIG by default'
    add('--work-dir', type=output_folder, metavar='DIR', help=text)
    add('--launcher', choices=['none', 'pytorch', 'slurm'], default='none')
    add_cfg_options(parser, example)
    add('--local-rank', '--local_rank', type=int, default=0, help='set by torchrun')
    arguments = vars(parser.parse_args())
    os.environ.setdefault('LOCAL_RANK', str(arguments.pop('local_rank')))
    return arguments


def run(job: str, arguments: dict) -> int:
    """Do ``train`` or ``run_test``; the imports come here, after all mistakes of the command."""
    from ttl_mm.engine.runner import launch

    work_dir = arguments['work_dir'] or launch.default_work_dir(arguments['config'])
    return launch.exit_code(lambda: getattr(launch, job)(**arguments), Path(work_dir))
