import numpy as np
import pytest

from tests.helpers.images import encode, natural
from ttl_mm.cli import main
from ttl_mm.datasets.decode import decode_image

RECIPE = """
train_dataloader = dict(dataset=dict(type='ttl_mm.ImageFolder', data_root='missing', pipeline=[
    dict(type='ttl_mm.RandomViews', views=[dict(size=8, num={num})]), dict(type='PackInputs')]))
"""


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / 'images'
    folder.mkdir()
    for i in range(3):
        (folder / f'{i}.jpg').write_bytes(encode(natural(40, 40, seed=i)))
    return folder


def draw(tmp_path, *arguments) -> np.ndarray:
    out = tmp_path / 'sheet.png'
    assert main(['views', *map(str, arguments), '--epochs', '1', '--out', str(out)]) == 0
    return decode_image(out)


def test_a_folder_is_drawn_with_the_views_of_the_paper(images, tmp_path, capsys):
    sheet = draw(tmp_path, images, '--images', '2')
    assert sheet.shape[0] > 2 * 160
    assert sheet.shape[1] > 3 * 160
    assert capsys.readouterr().out.rstrip().endswith('sheet.png')


def test_a_recipe_decides_on_the_views(images, tmp_path):
    recipe = tmp_path / 'recipe.py'
    widths = []
    for num in (1, 3):
        recipe.write_text(RECIPE.format(num=num))
        widths.append(draw(tmp_path, images, '--config', recipe).shape[1])
    assert widths[1] - widths[0] == pytest.approx(2 * 160, abs=10)


def test_a_recipe_brings_its_own_images(images, tmp_path):
    recipe = tmp_path / 'recipe.py'
    recipe.write_text(RECIPE.format(num=1).replace("'missing'", repr(str(images))))
    assert draw(tmp_path, '--config', recipe).shape[0] > 3 * 160


def test_what_cannot_be_drawn_is_said_in_one_sentence(images, tmp_path, capsys):
    recipe = tmp_path / 'recipe.py'
    recipe.write_text('train_cfg = None\n')
    out = str(tmp_path / 'missing' / 'sheet.png')
    for arguments, sentence in [
        ([], 'nothing to draw'),
        (['--config', str(recipe)], 'no train_dataloader'),
        ([str(images), '--out', out], 'cannot be written'),
    ]:
        assert main(['views', *arguments]) == 2
        assert sentence in capsys.readouterr().err
