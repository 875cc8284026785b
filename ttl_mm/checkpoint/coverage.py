"""Compare the tensors of a file with those of a model, and load them.

Coverage is the share of the model's tensors that the file has, equal in name and shape, or the
share of its values if that is smaller: a few large tensors can be half of a model. The
``num_batches_tracked`` of BatchNorm does not count: old files lack it, and nothing is computed
from it.
"""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from torch import Tensor, nn

from ttl_mm.checkpoint import layouts
from ttl_mm.errors import UserError

#: a run may start from the weights of another if this share of its tensors is there
ENOUGH = 0.9
REMEDY = 'Use a checkpoint of this architecture.'


class Comparison(NamedTuple):
    """How the tensors of a model and of a file match; as a string, one sentence for the log."""

    source: str  # the file
    matched: set[str]
    missing: list[str]  # in the model only
    unknown: list[str]  # in the file only
    reshaped: list[str]  # in both, with both shapes written out
    architectures: tuple[str, str]  # of the file and of the model
    values: tuple[int, int] = (1, 1)  # how many numbers match, and how many the model has

    @property
    def counts(self) -> tuple[int, int]:
        """How many of the model's tensors match, and how many it has."""
        matched = sum(map(_counts, self.matched))
        return matched, matched + len(self.missing) + len(self.reshaped)

    @property
    def coverage(self) -> float:
        """Share of the model's tensors, or of its values if that is less, that match."""
        pairs = self.counts, self.values
        return min((matched / expected for matched, expected in pairs if expected), default=0.0)

    def __str__(self) -> str:
        theirs, ours = self.architectures
        known = ours.startswith('ResNet') and theirs.startswith('ResNet') and ours != theirs
        mismatch = f' ({self.source} is a {theirs}, the model a {ours})' if known else ''
        groups = {
            'missing in the file': self.missing,
            'unknown to the model': self.unknown,
            'of another shape': self.reshaped,
        }
        problems = [f'; {len(n)} {title} ({some(n)})' for title, n in groups.items() if n]
        matched, expected = self.counts
        share = math.floor(100 * self.values[0] / max(1, self.values[1]))
        part = f', {share} % of its values' if self.missing or self.reshaped else ''
        found = f'{matched} of the {expected} tensors of the model are in {self.source}{mismatch}'
        found += part
        return found + ''.join(problems)

    def require(self, min_coverage: float, remedy: str = REMEDY) -> 'Comparison':
        """Return the comparison itself, or raise a UserError if too little matches.

        Args:
            min_coverage: 1 asks for an exact match, with no tensor too many on either side; below
                1 that share of the model's tensors is enough, whatever else the file holds.
            remedy: The last sentence of the message.
        """
        differs = bool(self.missing or self.unknown or self.reshaped)
        if self.coverage < min_coverage or (min_coverage == 1 and differs):
            raise UserError(f'{self}. {remedy}')
        return self


def compare(
    expected: Mapping[str, Tensor], given: Mapping[str, Tensor], source: str = 'the file'
) -> Comparison:
    """Sort the tensors of a model (``expected``) and of a file (``given``) by name and shape."""
    shapes, found = shapes_of(expected), shapes_of(given)
    matched = {name for name in shapes if found.get(name) == shapes[name]}
    sizes = {name: math.prod(shape) for name, shape in shapes.items() if _counts(name)}
    return Comparison(
        source,
        matched,
        missing=sorted(n for n in shapes if n not in found and _counts(n)),
        unknown=sorted(n for n in found if n not in shapes and _counts(n)),
        reshaped=sorted(
            f'{n} {found[n]} instead of {shapes[n]}'
            for n in shapes
            if n in found and n not in matched and _counts(n)
        ),
        architectures=(layouts.architecture(found), layouts.architecture(shapes)),
        values=(sum(n for name, n in sizes.items() if name in matched), sum(sizes.values())),
    )


def load_state(
    model: nn.Module, state: Mapping[str, Tensor], source: str,
    min_coverage: float = 1.0, remedy: str = REMEDY,
) -> Comparison:  # fmt: skip
    """Copy the tensors of the file ``source`` that match into ``model``, if enough of them do.

    Raises:
        UserError: Too little matches, see :meth:`Comparison.require`; the model is unchanged.
    """
    found = compare(model.state_dict(), state, source).require(min_coverage, remedy)
    model.load_state_dict({name: state[name] for name in found.matched}, strict=False)
    return found


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
