"""What is asked of ``ttl train``."""

from dataclasses import dataclass

from ttl_mm.errors import UserError
from ttl_mm.planning.machine import Machine

#: hours below this are spent on starting alone
SHORTEST_HOURS = 0.02


@dataclass(frozen=True)
class Request:
    """What the user asks for; None leaves the choice to the plan."""

    images: tuple[str, ...]
    backbone: str | None = None
    size: int | None = None
    epochs: int | None = None
    hours: float | None = None
    gpus: int | None = None
    labels: str | None = None
    init: str | None = None
    export: str | None = None
    amp: str | None = None  # these three as in ``tools/train.py``
    compile: bool = False
    checkpoint_activations: bool = False
    patience: int | None = None  # judgments


def check_request(request: Request, machine: Machine) -> None:
    """Refuse what cannot be meant."""
    if request.epochs is not None and request.hours is not None:
        raise UserError('--epochs and --hours both set the length of the run: give one of them.')
    if request.hours is not None and not request.hours >= SHORTEST_HOURS:
        raise UserError(
            f'--hours {request.hours:g} is {3600 * request.hours:.3g} seconds, which planning and '
            f'starting take already: give at least --hours {SHORTEST_HOURS:g}.'
        )
    for name in ('epochs', 'size', 'gpus', 'patience'):
        value = getattr(request, name)
        if value is not None and value < 1:
            raise UserError(f'--{name} {value}: at least 1 is needed.')
    if machine.gpus and request.gpus and request.gpus > machine.gpus:
        raise UserError(
            f'--gpus {request.gpus}: torch finds {machine.gpus} on this machine. Give at most that.'
        )
