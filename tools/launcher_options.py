"""What tools/train.py and tools/test.py share; not a tool of its own."""

import os
from importlib.metadata import version
from pathlib import Path

# idle OpenMP threads that spin make a CPU run many times slower on a shared machine
os.environ.setdefault('OMP_WAIT_POLICY', 'PASSIVE')
# the random rescale asks for blocks of ever new sizes, which fragment the memory of a GPU; the
# variable has a new name since torch 2.9, which warns about the old one
if not {'PYTORCH_ALLOC_CONF', 'PYTORCH_CUDA_ALLOC_CONF'} & os.environ.keys():
    is_new = tuple(map(int, version('torch').split('.')[:2])) >= (2, 9)
    name = 'PYTORCH_ALLOC_CONF' if is_new else 'PYTORCH_CUDA_ALLOC_CONF'
    os.environ[name] = 'expandable_segments:True'

from ttl_mm.arguments import Parser, add_cfg_options, output_folder


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
