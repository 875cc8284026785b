import numpy as np
import pytest

from tests.helpers.images import write_images
from ttl_mm.cli import main
from ttl_mm.datasets.decode import decode_image
from ttl_mm.datasets.picture_grid import FRAME, GAP

CONFIG = """
train_dataloader = dict(dataset=dict(type='ttl_mm.ImageFolder', data_root='missing', pipeline=[
    dict(type='ttl_mm.RandomViews', views=[dict(size=8, num={num})]), dict(type='PackInputs')]))
"""


@pytest.fixture
def images(tmp_path):
    return write_images(tmp_path / 'images', 3, 40, 40)


def draw(tmp_path, *arguments, config=None) -> np.ndarray:
    """The sheet that is drawn by the text of a config, or without one."""
    out, path = tmp_path / 'sheet.png', tmp_path / 'config.py'
    if config:
        path.write_text(config)
        arguments += '--config', path
    arguments += '--epochs', '1', '--overwrite', '--out', out
    assert main(['views', *map(str, arguments)]) == 0
    return decode_image(out)


def test_a_folder_is_drawn_with_the_views_of_the_paper(images, tmp_path, capsys):
    height, width, _ = draw(tmp_path, '--data', images, '--images', '2').shape
    assert height > 2 * 160
    assert width > 3 * 160
    assert capsys.readouterr().out.rstrip().endswith('sheet.png')


def test_a_config_decides_on_the_views_and_brings_its_own_images(images, tmp_path):
    one, three = (draw(tmp_path, '--data', images, config=CONFIG.format(num=num)) for num in (1, 3))
    assert three.shape[1] - one.shape[1] == 2 * (160 + 2 * FRAME + GAP)
    own = CONFIG.format(num=1).replace("'missing'", repr(str(images)))
    assert draw(tmp_path, config=own).shape == one.shape
    # a Fraction keeps its folder's pipeline, which also serves for another folder
    wrapped = "train_dataloader['dataset'] = dict(type='ttl_mm.Fraction', fraction=0.5, dataset={})"
    config = CONFIG.format(num=1) + wrapped.format("train_dataloader['dataset']")
    assert draw(tmp_path, '--data', images, config=config).shape == one.shape
    assert one.shape[0] > 3 * 160


def test_what_cannot_be_drawn_is_said_in_one_sentence(images, tmp_path, capsys):
    config = tmp_path / 'config.py'
    config.write_text('train_cfg = None\n')
    out = str(tmp_path / 'missing' / 'sheet.png')
    for arguments, sentence in [
        ([], 'nothing to draw'),
        (['--config', str(config)], 'no train_dataloader'),
        (['--data', str(images), '--out', out], 'cannot be written'),
        ([str(images)], f'now given as --data {images}'),
    ]:
        assert main(['views', *arguments]) == 2
        assert sentence in capsys.readouterr().err


def test_images_beyond_8_bit_rgb_are_measured_and_all_their_channels_drawn(tmp_path, capsys):
    rng, folder = np.random.default_rng(0), tmp_path / 'deep'
    folder.mkdir()
    for i in range(3):
        image = rng.integers(0, 4096, (40, 40, 4), np.uint16)
        image[..., 3] = 9  # tells nothing
        np.save(folder / f'{i}.npy', image)
    sheet = draw(tmp_path, '--data', folder)
    out = capsys.readouterr().out
    assert '4 channels of uint16, values 0 to 40' in out
    assert "bands={'low': (0" in out
    assert 'channel 4 of 4 is 9 in every image' in out
    gray = sheet.astype(int)
    assert (np.abs(gray - gray.mean(axis=2, keepdims=True)).max(axis=2) < 2).mean() > 0.9
    assert sheet.std() > 20
