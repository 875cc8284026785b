"""Build the dataset of a config, whose files may be damaged or of another kind."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mmengine.registry import DATASETS

from ttl_mm.ending import system_error
from ttl_mm.errors import UserError


def build_dataset(config: Mapping[str, Any], where: str) -> Any:
    """The dataset, with its list of samples read.

    Args:
        config: Of a dataset of any package, in the scope of the moment.
        where: The config file, for the message.

    Raises:
        UserError: It cannot be built.
    """
    with failures_named(f'the dataset {config.get("type")} of {where}'):
        dataset = DATASETS.build(dict(config))
        if hasattr(dataset, 'full_init'):
            dataset.full_init()
    return dataset


@contextmanager
def failures_named(what: str) -> Iterator[None]:
    """Turn what other packages raise for options and files that they cannot use into a UserError.

    Errors of the system stay: the end of every command makes a sentence of them.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if system_error(error):
            raise
        reason = (str(error).strip().splitlines() or ['no reason given'])[-1][:300]
        raise UserError(
            f'{what} cannot be made ({type(error).__name__}: {reason}): check its options and the '
            'files that it names.'
        ) from error


def start_guarded(init: Callable[[int], None] | None, worker: int) -> None:
    """What a worker process begins with.

    A worker that is not forked imports what it is given. This function brings the guards of
    :mod:`ttl_mm.registry` along, also where the dataset is none of ours.
    """
    if init is not None:
        init(worker)
