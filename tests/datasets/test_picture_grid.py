import numpy as np

from ttl_mm.datasets.picture_grid import CAPTION, FRAME, GAP, Tile, fit, picture_grid

RED = (200, 40, 30)


def flat(height: int, width: int, level: int) -> np.ndarray:
    return np.full((height, width, 3), level, np.uint8)


def test_images_do_not_overlap_and_a_color_draws_a_frame():
    rows = [[Tile(flat(10, width, width)) for width in (90, 30)], [Tile(flat(20, 40, 40))]]
    sheet = picture_grid(rows)
    assert sheet.shape == (30 + 2 * 2 * FRAME + 3 * GAP, 120 + 2 * 2 * FRAME + 3 * GAP, 3)
    for size, level in ((10 * 90, 90), (10 * 30, 30), (20 * 40, 40)):
        assert (sheet == level).all(axis=2).sum() == size
    sheet = picture_grid([[Tile(flat(8, 9, 10), color=RED), Tile(flat(8, 9, 20))]])
    framed = (sheet == RED).all(axis=2)
    assert framed.sum() == (8 + 2 * FRAME) * (9 + 2 * FRAME) - 8 * 9
    inside = sheet[GAP + FRAME : GAP + FRAME + 8, GAP + FRAME : GAP + FRAME + 9]
    assert (inside == 10).all()


def test_a_caption_has_its_color_and_its_own_space():
    plain, captioned = (
        picture_grid([[Tile(flat(8, 5, 10), caption)], [Tile(flat(8, 5, 10))]])
        for caption in ('', 'a long caption')
    )
    assert captioned.shape[0] == plain.shape[0] + CAPTION
    assert captioned.shape[1] > plain.shape[1] + 20  # the column holds the text
    assert (captioned == 10).all(axis=2).sum() == 2 * 8 * 5
    ink = captioned[GAP : GAP + CAPTION]
    assert ink.min() < 150
    red = picture_grid([[Tile(flat(8, 5, 10), 'text', RED)]])[GAP : GAP + CAPTION]
    assert (red[..., 0] >= red[..., 1]).all()


def test_fit_keeps_the_shape_of_an_image_and_enlarges_pixel_by_pixel():
    image = flat(100, 300, 0)
    assert fit(image, 50).shape == (50, 150, 3)
    assert fit(image, 50, max_width=75).shape == (25, 75, 3)
    image = np.random.default_rng(0).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    np.testing.assert_array_equal(fit(image, 12), image.repeat(3, axis=0).repeat(3, axis=1))
