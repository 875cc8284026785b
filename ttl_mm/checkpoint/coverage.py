"""Compare the tensors of a file with those of a model, and load them.

Coverage is the share of the model's tensors that the file has, equal in name and shape. The
``num_batches_tracked`` of BatchNorm does not count: old files lack it, and nothing is computed
from it.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from torch import Tensor, nn

from ttl_mm.checkpoint import layouts
from ttl_mm.errors import UserError

#: a run may start from the weights of another if this share of its tensors is there
ENOUGH = 0.9


class Comparison(NamedTuple):
    """The names of a model's tensors and of a file's, sorted into four groups."""

    matched: set[str]
    missing: list[str]  # in the model only
    unknown: list[str]  # in the file only
    reshaped: list[str]  # in both, with both shapes written out

    @property
    def coverage(self) -> float:
        """Share of the model's tensors that match."""
        counted = [name for name in self.matched if _counts(name)]
        total = len(counted) + len(self.missing) + len(self.reshaped)
        return len(counted) / total if total else 0.0

    @property
    def exact(self) -> bool:
        """Whether both sides have the same tensors."""
        return not (self.missing or self.unknown or self.reshaped)

    def __str__(self) -> str:
        groups = {
            'missing in the file': self.missing,
            'unknown to the model': self.unknown,
            'of another shape': self.reshaped,
        }
        return '; '.join(f'{len(n)} {title} ({some(n)})' for title, n in groups.items() if n)


def compare(expected: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> Comparison:
    """Sort the tensors of a model (``expected``) and of a file (``given``) by name and shape."""
    shapes, found = shapes_of(expected), shapes_of(given)
    matched = {name for name in shapes if found.get(name) == shapes[name]}
    return Comparison(
        matched,
        missing=sorted(n for n in shapes if n not in found and _counts(n)),
        unknown=sorted(n for n in found if n not in shapes and _counts(n)),
        reshaped=sorted(
            f'{n} {found[n]} instead of {shapes[n]}'
            for n in shapes
            if n in found and n not in matched and _counts(n)
        ),
    )


def load_state(
    model: nn.Module,
    state: Mapping[str, Tensor],
    source: str,
    min_coverage: float = 1.0,
    remedy: str = 'Use a checkpoint of this architecture.',
) -> Comparison:
    """Copy the tensors that match into ``model``.

    Args:
        model: What is loaded into.
        state: The tensors of a file, by name.
        source: The file, for the message.
        min_coverage: 1 asks for an exact match, with no tensor too many on either side; below 1
            that share of the model's tensors is enough, whatever else the file holds.
        remedy: The last sentence of the message.

    Raises:
        UserError: Too little matches; the model is then unchanged.
    """
    expected = model.state_dict()
    found = compare(expected, state)
    if found.coverage < min_coverage or (min_coverage == 1 and not found.exact):
        raise UserError(f'{_summary(found, expected, state, source)}. {remedy}')
    model.load_state_dict({name: state[name] for name in found.matched}, strict=False)
    return found


def check_coverage(
    model: nn.Module, state: Mapping[str, Tensor], source: str, min_coverage: float = ENOUGH
) -> str:
    """One sentence on how much of ``model`` a file covers; an error below ``min_coverage``."""
    expected = model.state_dict()
    found = compare(expected, state)
    summary = _summary(found, expected, state, source)
    if found.coverage < min_coverage:
        raise UserError(f'{summary}. Give a checkpoint of this model.')
    return summary


def _summary(
    found: Comparison, expected: Mapping[str, Tensor], state: Mapping[str, Tensor], source: str
) -> str:
    kinds = [layouts.architecture(shapes_of(tensors)) for tensors in (state, expected)]
    known = all(kind.startswith('ResNet') for kind in kinds) and kinds[0] != kinds[1]
    mismatch = f' ({source} is a {kinds[0]}, the model a {kinds[1]})' if known else ''
    matched = sum(map(_counts, found.matched))
    total = sum(map(_counts, expected))
    problems = f'; {found}' if str(found) else ''
    return f'{matched} of the {total} tensors of the model are in {source}{mismatch}{problems}'


def count_equal(
    module: nn.Module, state: Mapping[str, Tensor], prefix: str = ''
) -> tuple[int, int]:
    """How many tensors of ``module`` equal those of ``state`` below ``prefix``, out of how many."""
    own = {name: tensor for name, tensor in module.state_dict().items() if _counts(name)}
    equal = [prefix + n in state and t.cpu().equal(state[prefix + n]) for n, t in own.items()]
    return sum(equal), len(own)


def shapes_of(state: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor; values of another kind are left out."""
    return {name: tuple(t.shape) for name, t in state.items() if isinstance(t, Tensor)}


def some(names: Iterable[str], limit: int = 3) -> str:
    """The first few names, and how many more there are."""
    names = list(names)
    more = f' and {len(names) - limit} more' if len(names) > limit else ''
    return (', '.join(names[:limit]) or 'none') + more


def _counts(name: str) -> bool:
    return not name.endswith('num_batches_tracked')
