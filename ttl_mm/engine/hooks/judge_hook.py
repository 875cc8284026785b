"""Judge the features without labels while a network trains."""

from mmengine.dist import is_main_process
from mmengine.hooks import Hook
from torch import Tensor

from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.engine.state.rng_state import get_rng_state, set_rng_state
from ttl_mm.errors import UserError
from ttl_mm.evaluation.view_features import spread_indices, view_features
from ttl_mm.gauges.label_free import judge_views, nearest_neighbors, shared_neighbors
from ttl_mm.registry import HOOKS

MOST_TIMES = 50
MOST_IMAGES, FEWEST_IMAGES = 1024, 128
COST = 0.5  # of a view that is judged, in views that are trained on: no backward pass


@HOOKS.register_module()
class JudgeHook(Hook):
    """Log ``judge/*``, measures of the features that need no labels, at even distances.

    These are the measures of :func:`ttl_mm.gauges.judge_views`, and ``judge/stability``, the share
    of the nearest neighbors that an image has kept since the last judgment.

    The first process reads some images in several random views, passes them through the backbone
    in evaluation mode and measures the features. Training does not notice: random generators,
    modes and statistics of BatchNorm are afterwards what they were. How many images and how often
    follows from the length of the run, so that judging takes at most ``share`` of it; where even
    two judgments would take more, as in a run of a few steps, it does not judge.

    Args:
        share: Largest part of the work of the run, above 0 and below 1.
        draws: How often each image is read; each time gives as many views as training has.
        neighbors: How many neighbors the measures of neighbors compare.
    """

    priority = 72  # after the gauges (LOW, 70), before the probe (75) and the checkpoint

    def __init__(self, share: float = 0.01, draws: int = 2, neighbors: int = 10) -> None:
        if not 0 < share < 1 or draws < 1 or neighbors < 1:
            found = f'share={share}, draws={draws}, neighbors={neighbors}'
            raise UserError(f'{found}: a share is in (0, 1), the others at least 1.')
        self.share, self.draws, self.neighbors = share, draws, neighbors
        self._steps: list[int] = []
        self._neighbors: Tensor | None = None  # (N, k) at the last judgment

    def state_dict(self) -> dict:
        return {'neighbors': self._neighbors}

    def load_state_dict(self, state: dict) -> None:
        self._neighbors = state['neighbors']

    def before_train(self, runner) -> None:
        """Decide how much and when; judge the untrained network."""
        loader = runner.train_dataloader
        batch = loader.batch_sampler.batch_size
        views = runner.max_iters * batch * runner.train_loop.ranks.ranks
        times, images = judgments(views, self.draws, len(loader.dataset), self.share)
        self._steps = [runner.max_iters * i // times for i in range(times + 1)] if times else []
        self._indices = spread_indices(images, len(loader.dataset))
        if runner.iter == 0 and self._steps:
            self._judge(runner, 0)

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        if runner.iter + 1 in self._steps:
            self._judge(runner, runner.iter + 1)

    def _judge(self, runner, step: int) -> None:
        if not is_main_process():
            return
        rng = get_rng_state()
        try:
            views = view_features(
                unwrap_model(runner.model),
                runner.train_dataloader.dataset,
                self._indices,
                self.draws,
                runner.seed,
            )
        finally:
            set_rng_state(rng)
        if views.shape[1] < 2:
            return
        found = judge_views(views, self.neighbors)
        before, self._neighbors = self._neighbors, nearest_neighbors(views[:, 0], self.neighbors)
        if before is not None and before.shape == self._neighbors.shape:
            found['stability'] = shared_neighbors(before, self._neighbors)
        scores = {f'judge/{name}': value for name, value in found.items()}
        if step:  # for CheckpointHook(save_best=...), which never saves a start
            runner.message_hub.update_scalars(scores)
        runner.logger.info('  '.join(f'{name}: {value:.4g}' for name, value in scores.items()))
        epoch = step // len(runner.train_dataloader)
        runner.visualizer.add_scalars({**scores, 'epoch': epoch, 'iter': step}, step=step)


def judgments(views: int, draws: int, images: int, share: float) -> tuple[int, int]:
    """How often to judge and on how many images, so that it costs at most ``share`` of a run.

    Args:
        views: that the run trains on, divided by the views of an image.
        draws: times that each image is read for one judgment.
        images: that there are.
        share: of the work of the run.

    >>> judgments(views=100_000, draws=2, images=10_000, share=0.01)
    (7, 128)
    """
    budget = share * views / (COST * draws)  # images that may be judged in all
    count = int(min(MOST_IMAGES, images, max(FEWEST_IMAGES, budget / (MOST_TIMES + 1))))
    times = int(min(MOST_TIMES, budget / count - 1)) if count else 0  # and once at the start
    return (times, count) if times >= 1 else (0, 0)
