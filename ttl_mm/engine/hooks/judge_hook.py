"""Judge the features without labels while a network trains."""

import time
from functools import partial

from mmengine.dist import is_main_process
from mmengine.hooks import Hook
from torch import Tensor

from ttl_mm.engine.state.measured import remember
from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.engine.state.rng_state import get_rng_state, set_rng_state
from ttl_mm.engine.state.signs_of_life import report_life
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
    follows from the length of the run, so that judging takes at most ``share`` of its work; where
    even two judgments would take more, as in a run of a few steps, it does not judge. The clock
    has the last word: a judgment is left out where all of them together would take more than
    ``share`` of the time so far, but for that of the untrained network, which the verdict compares
    with (:func:`ttl_mm.gauges.verdict.verdict`).

    Args:
        share: Largest part of the work and of the time of the run, above 0 and below 1.
        draws: How often each image is read; each time gives as many views as training has.
        neighbors: How many neighbors the measures of neighbors compare.
    """

    priority = 72  # after the gauges (LOW, 70), before the probe (75) and the checkpoint

    def __init__(self, share: float = 0.01, draws: int = 2, neighbors: int = 10) -> None:
        if not 0 < share < 1 or draws < 1 or neighbors < 1:
            found = f'share={share}, draws={draws}, neighbors={neighbors}'
            raise UserError(f'{found}: a share is in (0, 1), the others at least 1.')
        self.share, self.draws, self.neighbors = share, draws, neighbors
        self.times = 0  # judgments that the work allows, the first one not counted
        self.spent = 0.0  # seconds that all judgments took
        self._trained = 0.0  # seconds of the run, before it was resumed
        self._began = 0.0
        self._last = 0.0  # seconds of the last judgment
        self._neighbors: Tensor | None = None  # (N, k) at the last judgment

    def state_dict(self) -> dict:
        times = {'spent': self.spent, 'trained': self.seconds, 'last': self._last}
        return {'neighbors': self._neighbors, **times}

    def load_state_dict(self, state: dict) -> None:
        self._neighbors = state['neighbors']
        self.spent, self._trained = state.get('spent', 0.0), state.get('trained', 0.0)
        self._last = state.get('last', 0.0)

    @property
    def seconds(self) -> float:
        """Seconds that the run has taken so far."""
        return self._trained + time.perf_counter() - self._began

    def before_train(self, runner) -> None:
        """Decide how much and how often; judge the untrained network."""
        loader = runner.train_dataloader
        batch = loader.batch_sampler.batch_size
        views = runner.max_iters * batch * runner.train_loop.ranks.ranks
        self.times, images = judgments(views, self.draws, len(loader.dataset), self.share)
        self._indices = spread_indices(images, len(loader.dataset))
        self._began = time.perf_counter()
        if runner.iter == 0 and self.times and is_main_process():
            self._judge(runner, 0)

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        done, end = runner.iter + 1, runner.max_iters  # which TimeLimitHook may have moved
        in_time = self.spent + self._last <= self.share * self.seconds
        if is_main_process() and in_time and is_due(done, end, self.times):
            self._judge(runner, done)

    def _judge(self, runner, step: int) -> None:
        began = time.perf_counter()
        rng = get_rng_state()
        try:
            views = view_features(
                unwrap_model(runner.model),
                runner.train_dataloader.dataset,
                self._indices,
                self.draws,
                runner.seed,
                partial(report_life, runner),
            )
        finally:
            set_rng_state(rng)
        if views.shape[1] < 2:  # nothing to compare: not in this run
            self.times = 0
            return
        found = judge_views(views, self.neighbors)
        before = self._neighbors
        self._neighbors = nearest_neighbors(views[:, 0], self.neighbors, draw=step)
        if before is not None and before.shape == self._neighbors.shape:
            found['stability'] = shared_neighbors(before, self._neighbors)
        scores = {f'judge/{name}': value for name, value in found.items()}
        if step:  # for CheckpointHook(save_best=...), which never saves a start
            runner.message_hub.update_scalars(scores)
        runner.logger.info('  '.join(f'{name}: {value:.4g}' for name, value in scores.items()))
        epoch = step // len(runner.train_dataloader)
        self._last = time.perf_counter() - began
        self.spent += self._last
        for name, value in scores.items():
            remember(runner, name, step, value)
        scores['judge/seconds'] = self.spent  # of all judgments so far
        runner.visualizer.add_scalars({**scores, 'epoch': epoch, 'iter': step}, step=step)


def is_due(done: int, end: int, times: int) -> bool:
    """Whether one of ``times`` even parts of a run of ``end`` steps is finished at ``done``.

    >>> [step for step in range(1, 11) if is_due(step, 10, 3)]
    [4, 7, 10]
    """
    return done * times // end > (done - 1) * times // end


def judgments(views: int, draws: int, images: int, share: float) -> tuple[int, int]:
    """How often to judge and on how many images, so that it costs at most ``share`` of a run.

    Args:
        views: that the run trains on, divided by the views of an image.
        draws: times that each image is read for one judgment.
        images: that there are.
        share: of the work of the run.

    >>> judgments(views=100_000, draws=2, images=10_000, share=0.01)
    (6, 128)
    """
    budget = share * views / (COST * draws)  # images that may be judged in all
    count = int(min(MOST_IMAGES, images, max(FEWEST_IMAGES, budget / (MOST_TIMES + 1))))
    times = int(min(MOST_TIMES, budget / count - 1)) if count else 0  # and once at the start
    return (times, count) if times >= 1 else (0, 0)
