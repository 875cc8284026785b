"""Count the images that could not be read, name each once, and stop if there are too many."""

from mmengine.dist import get_world_size
from mmengine.hooks import Hook

from ttl_mm.engine.state.control_group import gather
from ttl_mm.engine.state.exit_codes import TrainingStopped
from ttl_mm.engine.state.run_settings import RunSettings
from ttl_mm.errors import UserError
from ttl_mm.registry import HOOKS

TOLERATED = 10  # so many never stop a run, however small


@HOOKS.register_module()
class BadImagesHook(Hook):
    """Report what :class:`ttl_mm.datasets.train_samples.TrainSamples` has skipped.

    Args:
        max_share: Stop when more than this share of the images met so far is bad (and more than
            ten images are).
        interval: Iterations between two exchanges of the ranks; a single process reports at once.
    """

    priority = 'NORMAL'

    def __init__(self, max_share: float = 0.01, interval: int = 50) -> None:
        if not 0 <= max_share <= 1:
            raise UserError(f'max_share={max_share}: it must be a share between 0 and 1.')
        self.max_share, self.interval = max_share, interval
        self.found: dict[str, str] = {}  # path to reason
        self._new: dict[str, str] = {}

    def state_dict(self) -> dict:
        return {'found': self.found}

    def load_state_dict(self, state: dict) -> None:
        self.found = dict(state['found'])

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        for path, reason in getattr(runner.train_loop, 'skipped', ()):
            self._new.setdefault(path, reason)
        if get_world_size() == 1 or self.every_n_train_iters(runner, self.interval):
            self._report(runner)

    def after_train_epoch(self, runner) -> None:
        self._report(runner)

    def _report(self, runner) -> None:
        met_by_ranks = gather(self._new)
        self._new = {}
        news = {path: why for bad in met_by_ranks for path, why in bad.items()}
        for path, why in news.items():
            if path not in self.found:
                runner.logger.warning(f'bad image skipped: {path}: {why}')
        if not news:
            return
        self.found |= news
        runner.message_hub.update_info('bad_images', len(self.found))
        run = RunSettings.of(runner)
        met = min(run.images, (runner.iter + 1) * run.batch_size)
        if len(self.found) > max(TOLERATED, self.max_share * met):
            raise TrainingStopped(
                f'{len(self.found)} of {met} images cannot be read, more than '
                f'max_share={self.max_share} allows: repair the data (the log names each file), or '
                'raise the limit with --cfg-options +default_hooks.bad_images.max_share=0.1'
            )
