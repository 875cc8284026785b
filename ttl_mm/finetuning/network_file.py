"""A network on a ResNet in one file, and building it from there.

Nothing in the file is executed: it names a model, a ResNet, the classes and the pixels; the network
is built from these by one of our recipes, and the tensors must be its own.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from mmengine.config import Config
from mmengine.model import revert_sync_batchnorm
from torch import Tensor, nn

from ttl_mm.checkpoint.load import refuse_bad_tensors, resolve, tensors_of
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.errors import UserError
from ttl_mm.evaluation.model import choose_device
from ttl_mm.finetuning.resnet import Backbone, Described, read_description
from ttl_mm.models.build_loaded import build_loaded
from ttl_mm.version import __version__


def write_network(
    checkpoint: Path, path: Path, meta: Mapping[str, Any],
    convert: Callable[[dict[str, Tensor]], dict[str, Tensor]] = dict,
) -> None:  # fmt: skip
    """Write the tensors of a checkpoint with what is needed to build their network again.

    Args:
        checkpoint: Of a training.
        path: Where to write.
        meta: What is needed.
        convert: Makes of the tensors those that are written.
    """
    state = {n: t.clone() for n, t in convert(tensors_of(read_checkpoint(checkpoint))).items()}
    partial = path.with_name(f'{path.name}.partial')
    meta = {**meta, 'written_by': f'ttl_mm {__version__}'}
    torch.save({'state_dict': state, 'meta': meta}, partial)
    partial.replace(path)


class Kind(NamedTuple):
    """A kind of network that a file can hold."""

    key: str  # of the model's name in the file
    title: str
    models: Collection[str]  # that are known
    most_classes: int
    remedy: str

    def description(
        self, model: str, backbone: Backbone, classes: Sequence[str], size: int
    ) -> dict[str, Any]:
        """What :func:`open_network` reads."""
        return {
            self.key: model, 'classes': list(classes), 'backbone': backbone.config,
            'input': {'size': size, 'mean': list(backbone.mean), 'std': list(backbone.std)},
        }  # fmt: skip


def open_network(
    kind: Kind, weights: str | Path, config: Callable[[Described], Config], scope: str,
    device: str | None,
) -> tuple[Described, nn.Module]:  # fmt: skip
    """What a file says about its network, and the network in evaluation mode.

    Args:
        kind: What the file must hold.
        weights: The file.
        config: A config with the network of a description.
        scope: The registry in which short names are looked up.
        device: Where to compute; a GPU if there is one, by default.

    Raises:
        UserError: The file holds no such network of ours.
    """
    content = read_checkpoint(resolve(weights))
    found = read_description(content.get('meta'), kind.key)
    if found is None:
        raise UserError(f'{weights} holds no {kind.title}: {kind.remedy}.')
    if found.model not in kind.models or not 1 <= len(found.classes) <= kind.most_classes:
        raise UserError(
            f'{weights} names the {kind.title} {found.model!r} for {len(found.classes)} classes, '
            f'which is refused: {kind.remedy}.'
        )
    state = tensors_of(content)
    refuse_bad_tensors(state, str(weights))
    network = build_loaded(config(found).model, state, str(weights), scope)
    return found, revert_sync_batchnorm(network).to(choose_device(device)).eval()
