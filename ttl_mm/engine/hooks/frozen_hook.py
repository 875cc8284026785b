"""A linear evaluation judges features, so they must not move."""

from mmengine.hooks import Hook

from ttl_mm.checkpoint.coverage import count_equal
from ttl_mm.checkpoint.load import load_backbone_state
from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.errors import UserError, counted
from ttl_mm.registry import HOOKS


@HOOKS.register_module()
class FrozenBackboneHook(Hook):
    """End the run if a weight of the backbone would be trained, or if any tensor of it has changed.

    Statistics of BatchNorm count: they move without a gradient wherever a layer is left in training
    mode. It is checked before the first step and after every epoch.
    """

    priority = 'VERY_HIGH'  # before a checkpoint of a spoilt run is saved

    def before_train(self, runner) -> None:
        backbone = unwrap_model(runner.model).get_submodule('backbone')
        trained = [name for name, weight in backbone.named_parameters() if weight.requires_grad]
        if trained:
            raise UserError(
                f'{len(trained)} weights of the backbone would be trained ({trained[0]} ...), and '
                'a linear evaluation trains the classifier alone: set model.backbone.frozen_stages '
                'to the number of stages.'
            )
        self.start = {name: value.clone() for name, value in backbone.state_dict().items()}
        init = getattr(backbone, 'init_cfg', None)
        if isinstance(init, dict) and (path := init.get('checkpoint')):
            equal, total = count_equal(backbone, load_backbone_state(path))
            if equal < total:
                raise UserError(
                    f'{total - equal} of the {total} tensors of the backbone are not those of '
                    f'{path}: nothing may initialize or load weights after init_cfg.'
                )

    def after_train_epoch(self, runner) -> None:
        """Compare with the start, bit by bit."""
        now = unwrap_model(runner.model).get_submodule('backbone').state_dict()
        changed = [name for name, value in self.start.items() if not value.equal(now[name])]
        if changed:
            raise UserError(
                f'the frozen backbone has changed in {counted(len(changed), "tensor")} '
                f'({changed[0]} ...): the figures of this run are void. Keep its BatchNorm in '
                'evaluation mode, as frozen_stages does.'
            )
