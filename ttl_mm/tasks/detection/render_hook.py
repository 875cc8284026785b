"""Pictures of a detector's predictions."""

from pathlib import Path

import mmcv
from mmengine.hooks import Hook

from ttl_mm.registry import HOOKS


@HOOKS.register_module()
class RenderPredictionsHook(Hook):
    """During testing, draw ground truth (left) and predictions (right) of the first images.

    The pictures are written to ``rendered/`` in the work directory, named after the images.

    Args:
        images: Number of images on each rank.
        score: Predictions with a lower score are not drawn.
        validation: Whether to draw in every validation, too, into ``rendered/iter_N/``.
    """

    priority = 'LOW'

    def __init__(self, images: int = 8, score: float = 0.3, validation: bool = False) -> None:
        self.images, self.score, self.validation = images, score, validation

    def before_test(self, runner) -> None:
        self.left = self.images

    def before_val(self, runner) -> None:
        self.left = self.images if self.validation else 0

    def after_test_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        """Draw samples of this batch until enough images are drawn."""
        self._draw(runner, outputs, Path(runner.work_dir) / 'rendered')

    def after_val_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        """The same while training."""
        self._draw(runner, outputs, Path(runner.work_dir) / 'rendered' / f'iter_{runner.iter}')

    def _draw(self, runner, outputs, folder: Path) -> None:
        for sample in outputs[: self.left]:
            path = Path(sample.img_path)
            runner.visualizer.add_datasample(
                path.stem,
                mmcv.imread(str(path), channel_order='rgb'),
                sample,
                pred_score_thr=self.score,
                out_file=str(folder / f'{path.stem}.png'),
            )
        self.left -= len(outputs[: self.left])
