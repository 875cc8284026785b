"""Start a part of a network from a pre-training checkpoint, or refuse to start."""

from collections.abc import Mapping, Sequence

from mmengine.logging import print_log
from mmengine.model import update_init_info
from torch import Tensor, nn

from ttl_mm.errors import UserError
from ttl_mm.registry import WEIGHT_INITIALIZERS
from ttl_mm.zoo.load import load_backbone_state, load_into
from ttl_mm.zoo.models import SCHEME, load_from_zoo


@WEIGHT_INITIALIZERS.register_module()
class PretrainedBackbone:
    """``init_cfg`` of a ResNet, or of some of its stages under their usual names.

    Every tensor must come from the checkpoint, where mmengine's ``Pretrained`` accepts one that
    matches nothing. Stages that only the checkpoint has are left out.

    Args:
        checkpoint: A file in any layout that :func:`ttl_mm.zoo.load.load_backbone_state` reads, or
            ``ttl_mm://name`` for one of the zoo.
        fresh: Prefixes of tensors that have no counterpart in pre-training and keep their values.
    """

    def __init__(self, checkpoint: str | None, fresh: Sequence[str] = ()) -> None:
        self.checkpoint = checkpoint
        self.fresh = tuple(fresh)

    def __call__(self, module: nn.Module) -> None:
        """Load, and log how much of the module came from the checkpoint."""
        if not self.checkpoint:
            raise UserError(
                f'init_cfg.checkpoint={self.checkpoint!r}: name the pre-training checkpoint, with '
                '--cfg-options model.backbone.init_cfg.checkpoint=FILE or as '
                'projects/detection/run.sh does, or choose a config that starts at random.'
            )
        parts = {name for name, _ in module.named_children()}
        state = start_state(self.checkpoint)
        state = {n: t for n, t in state.items() if n.split('.')[0] in parts}
        own = _counted(module)
        kept = {n: t for n, t in own.items() if n.startswith(self.fresh)}
        load_into(module, state | kept)
        if hasattr(module, 'zero_init_residual'):
            module.zero_init_residual = False  # mmpretrain would zero the last norms after loading
        if hasattr(module, '_params_init_info'):  # mmengine's record, written to the log
            update_init_info(module, init_info=f'PretrainedBackbone: {self.checkpoint}')
        fresh = f', {len(kept)} start anew' if kept else ''
        print_log(
            f'{type(module).__name__}: all {len(own) - len(kept)} tensors from '
            f'{self.checkpoint}{fresh}',
            logger='current',
        )


def start_state(checkpoint: str) -> dict[str, Tensor]:
    """The backbone's tensors from a file or from the zoo."""
    return load_backbone_state(
        load_from_zoo(checkpoint) if checkpoint.startswith(SCHEME) else checkpoint
    )


def equal_tensors(
    module: nn.Module, state: Mapping[str, Tensor], prefix: str = ''
) -> tuple[int, int]:
    """How many tensors of ``module`` equal those of ``state`` below ``prefix``, out of how many.

    Counters of batches are left out.
    """
    own = _counted(module)
    equal = [prefix + n in state and t.cpu().equal(state[prefix + n]) for n, t in own.items()]
    return sum(equal), len(own)


def _counted(module: nn.Module) -> dict[str, Tensor]:
    return {n: t for n, t in module.state_dict().items() if not n.endswith('num_batches_tracked')}
