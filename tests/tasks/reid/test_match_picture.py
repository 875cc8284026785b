import cv2
import numpy as np

from ttl_mm.datasets.picture_grid import CAPTION, FRAME, GAP
from ttl_mm.tasks.reid import match_picture as shown
from ttl_mm.tasks.reid.match_picture import Ranking, best_matches, draw_matches


def test_best_matches_leave_junk_out_and_know_right_from_wrong():
    gallery = np.array([[9.0], [8.0], [5.0], [7.0], [6.0], [5.0]], np.float32)
    ids, cams = np.array([-1, 4, 4, 5, 4, 0]), np.array([1, 2, 1, 1, 1, 1])
    query = np.ones((2, 1), np.float32), np.array([7, 4]), np.array([2, 2])
    (ranking,) = best_matches(*query, gallery, ids, cams, queries=[1], k=10)
    assert ranking.query == 1
    assert ranking.gallery.tolist() == [3, 4, 2, 5]  # 0 is junk, 1 from the query's camera
    assert ranking.right.tolist() == [False, True, True, False]


def test_frames_mark_the_query_right_and_wrong(tmp_path):
    for name, gray in (('query', 10), ('first', 100), ('second', 200)):
        cv2.imwrite(str(tmp_path / f'{name}.png'), np.full((20, 10, 3), gray, np.uint8))
    ranking = Ranking(0, np.array([1, 0]), np.array([False, True]))
    gallery = [tmp_path / 'first.png', tmp_path / 'second.png']
    picture = draw_matches([ranking], lambda q: tmp_path / 'query.png', lambda g: gallery[g])
    corners = [GAP + column * (shown.WIDTH + 2 * FRAME + GAP) for column in range(3)]
    top = GAP + CAPTION
    frames = [picture.getpixel((x, top)) for x in corners]
    assert frames == [shown.QUERY, shown.WRONG, shown.RIGHT]
    middle = top + shown.HEIGHT // 2
    inside = [picture.getpixel((x + shown.WIDTH // 2, middle))[0] for x in corners]
    assert inside == [10, 200, 100]
