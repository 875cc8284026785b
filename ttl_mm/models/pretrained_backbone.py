"""Initialize a backbone, or stages of one, from a pre-training checkpoint."""

from collections.abc import Sequence

from mmengine.logging import print_log
from mmengine.model import update_init_info
from torch import nn

from ttl_mm.checkpoint.architecture import read_architecture
from ttl_mm.checkpoint.coverage import load_state
from ttl_mm.checkpoint.load import load_backbone_state, resolve
from ttl_mm.errors import UserError
from ttl_mm.models.adapted_backbone import AdaptedBackbone
from ttl_mm.registry import WEIGHT_INITIALIZERS


@WEIGHT_INITIALIZERS.register_module()
class PretrainedBackbone:
    """``init_cfg`` of a ResNet, or of a module that holds some of its stages under their names.

    Every tensor of the module must come from the checkpoint; mmengine's ``Pretrained`` would accept
    a file in which nothing matches. Stages that only the checkpoint has are ignored::

        init_cfg=dict(type='ttl_mm.PretrainedBackbone', checkpoint='epoch_200.pth')

    Args:
        checkpoint: A file in any layout that :func:`~ttl_mm.checkpoint.load.load_backbone_state`
            reads, or ``ttl_mm://name`` for one of the zoo.
        fresh: Prefixes of tensors that pre-training does not have, which keep their initial values.
    """

    def __init__(self, checkpoint: str | None, fresh: Sequence[str] = ()) -> None:
        self.checkpoint = checkpoint
        self.fresh = tuple(fresh)

    def __call__(self, module: nn.Module) -> None:
        if not self.checkpoint:
            raise UserError(
                f'init_cfg.checkpoint={self.checkpoint!r}: name the pre-training checkpoint with '
                '--cfg-options model.backbone.init_cfg.checkpoint=FILE or as '
                'projects/detection/run.sh does, or choose a config that starts at random.'
            )
        parts = {name.split('.')[0] for name in module.state_dict()}
        if isinstance(module, AdaptedBackbone):
            state = load_backbone_state(self.checkpoint, expected=module.state_dict())
        else:
            state = load_backbone_state(self.checkpoint)
        state = {n: t for n, t in state.items() if n.split('.')[0] in parts}
        kept = {n: t for n, t in module.state_dict().items() if n.startswith(self.fresh)}
        try:
            loaded = load_state(module, state | kept, self.checkpoint)
        except UserError as error:
            _refuse_others(module, self.checkpoint, error)
            raise
        if hasattr(module, 'zero_init_residual'):  # mmpretrain would zero the last norms afterwards
            module.zero_init_residual = False  # type: ignore[assignment]
        if hasattr(module, '_params_init_info'):  # mmengine's record, written to the log
            update_init_info(module, init_info=f'PretrainedBackbone: {self.checkpoint}')
        fresh = f', {len(kept)} keep their initial values' if kept else ''
        count = f'{type(module).__name__}: all {len(loaded.matched) - len(kept)} tensors'
        print_log(f'{count} from {self.checkpoint}{fresh}', 'current')


def _refuse_others(module: nn.Module, checkpoint: str, error: UserError) -> None:
    """Say so where tensors do not fit because the file is of a network of another kind."""
    declared = read_architecture(resolve(checkpoint))
    if declared is not None and not isinstance(module, AdaptedBackbone):
        raise UserError(
            f'{checkpoint} holds {declared.network}, and {type(module).__name__} here takes the '
            'stages of a ResNet: pre-train a ResNet for this detector or classifier.'
        ) from error
