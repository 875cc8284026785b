"""Pictures of the first images, and of no others."""

from types import SimpleNamespace

import cv2
import numpy as np

from ttl_mm.tasks.detection.render_hook import RenderPredictionsHook


def test_the_first_images_are_drawn_in_rgb_under_their_names(tmp_path):
    drawn, samples = [], []

    def draw(name, image, sample, **options) -> None:
        drawn.append((name, image[0, 0].tolist(), options))

    visualizer = SimpleNamespace(add_datasample=draw)
    runner = SimpleNamespace(work_dir=str(tmp_path / 'work'), visualizer=visualizer)
    for i in range(4):
        path = tmp_path / f'image{i}.png'
        cv2.imwrite(str(path), np.full((4, 4, 3), [i, 0, 9], np.uint8))  # BGR
        samples.append(SimpleNamespace(img_path=str(path)))
    hook = RenderPredictionsHook(images=3, score=0.7)
    for _ in range(2):  # every test starts again
        drawn.clear()
        hook.before_test(runner)
        hook.after_test_iter(runner, 0, outputs=samples[:2])
        hook.after_test_iter(runner, 1, outputs=samples[2:])
        assert [call[:2] for call in drawn] == [(f'image{i}', [9, 0, i]) for i in range(3)]
    file = str(tmp_path / 'work/rendered/image2.png')
    assert drawn[2][2] == {'pred_score_thr': 0.7, 'out_file': file}
