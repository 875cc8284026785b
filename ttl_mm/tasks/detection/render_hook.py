"""Pictures of what a detector predicts."""

from pathlib import Path

import mmcv
from mmengine.hooks import Hook

from ttl_mm.registry import HOOKS


@HOOKS.register_module()
class RenderPredictionsHook(Hook):
    """While testing, draw truth (left) and prediction (right) of the first few images.

    The pictures go to ``rendered/`` in the work directory, under the names of the images.

    Args:
        images: How many, on each rank.
        score: Predictions below it are left out.
    """

    priority = 'LOW'

    def __init__(self, images: int = 8, score: float = 0.3) -> None:
        self.images = images
        self.score = score

    def before_test(self, runner) -> None:
        """Start counting."""
        self.left = self.images

    def after_test_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        """Draw the samples of this batch while there are images left to draw."""
        for sample in outputs[: self.left]:
            path = Path(sample.img_path)
            runner.visualizer.add_datasample(
                path.stem,
                mmcv.imread(str(path), channel_order='rgb'),
                sample,
                pred_score_thr=self.score,
                out_file=str(Path(runner.work_dir) / 'rendered' / f'{path.stem}.png'),
            )
        self.left -= len(outputs[: self.left])
