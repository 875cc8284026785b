"""Load weights into a model, and refuse to go on with weights that did not fit."""

from collections.abc import Mapping

from mmengine.runner import CheckpointLoader
from torch import Tensor, nn

from ttl_mm.engine.train_state import bare
from ttl_mm.errors import UserError

MIN_COVERAGE = 0.9


def load_weights(runner, filename: str) -> dict:
    """``load_from``: start a new run from the weights of another.

    Raises:
        UserError: Less than 90 % of the file's tensors, and of the model's, match.
    """
    checkpoint = CheckpointLoader.load_checkpoint(filename, 'cpu')
    runner.call_hook('after_load_checkpoint', checkpoint=checkpoint)
    state, model = weights_in(checkpoint), bare(runner.model)
    runner.logger.info(check_coverage(model.state_dict(), state, filename))
    fitting, _ = compare(model.state_dict(), state)
    model.load_state_dict({name: state[name] for name in fitting}, strict=False)
    return checkpoint


def weights_in(checkpoint: Mapping) -> dict[str, Tensor]:
    """The tensors of a checkpoint by name."""
    state = checkpoint.get('state_dict', checkpoint)
    return {name.removeprefix('module.'): value for name, value in state.items()}


def check_coverage(
    expected: Mapping[str, Tensor], given: Mapping[str, Tensor], filename: str
) -> str:
    """One sentence on how well a file fits; a :class:`UserError` if it does not."""
    fitting, problems = compare(expected, given)
    coverage = max(len(fitting) / max(1, len(given)), len(fitting) / max(1, len(expected)))
    summary = (
        f'{len(fitting)} of the {len(given)} tensors in {filename} fit into the model, which has '
        f'{len(expected)}'
    )
    if coverage < MIN_COVERAGE:
        raise UserError(f'{summary}; {problems}. Give a checkpoint of this model.')
    return summary + (f'; {problems}' if problems else '')


def load_whole(model: nn.Module, state: Mapping[str, Tensor], filename: str) -> None:
    """Load a checkpoint that must fit exactly, as on resume."""
    fitting, problems = compare(model.state_dict(), state)
    if problems:
        raise UserError(
            f'{filename} belongs to another model than this config: {problems}. Choose another '
            '--work-dir, or start from its weights with load_from.'
        )
    model.load_state_dict({name: state[name] for name in fitting})


def compare(expected: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> tuple[set[str], str]:
    """The names that match in shape, and a description of all others."""
    shapes = {name: tuple(value.shape) for name, value in expected.items()}
    found = {name: tuple(v.shape) for name, v in given.items() if isinstance(v, Tensor)}
    fitting = {name for name in shapes if found.get(name) == shapes[name]}
    groups = {
        'missing in the file': [name for name in shapes if name not in found],
        'unknown to the model': [name for name in found if name not in shapes],
        'of another shape': [
            f'{name} {found[name]} instead of {shapes[name]}'
            for name in shapes
            if name in found and name not in fitting
        ],
    }
    problems = [
        f'{len(names)} {title} ({", ".join(names[:3])}{", ..." if len(names) > 3 else ""})'
        for title, names in groups.items()
        if names
    ]
    return fitting, '; '.join(problems)
