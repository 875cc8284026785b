"""Settings that torch reads from the environment when it is imported."""

from collections.abc import MutableMapping
from importlib.metadata import version

_ALLOCATOR = 'PYTORCH_ALLOC_CONF', 'PYTORCH_CUDA_ALLOC_CONF'


def set_torch_environment(environment: MutableMapping[str, str]) -> None:
    """Add what training wants to environment variables, unless the user has set it."""
    # idle OpenMP threads that spin make a CPU run many times slower on a shared machine
    environment.setdefault('OMP_WAIT_POLICY', 'PASSIVE')
    # The random rescale asks for blocks of ever new sizes, which fragment the memory of a GPU. The
    # variable has a new name since torch 2.9, which warns about the old one.
    if not set(_ALLOCATOR) & environment.keys():
        is_new = tuple(map(int, version('torch').split('.')[:2])) >= (2, 9)
        environment[_ALLOCATOR[0 if is_new else 1]] = 'expandable_segments:True'
