"""Bad images do not end a training run, and are not forgotten either."""

import pytest

from tests.helpers.images import bad_files, write_images
from tests.helpers.toy_run import OUR_VIEWS, log_file, run, write_config
from ttl_mm.engine.state.exit_codes import STOPPED

LIMIT = '\ndefault_hooks.update(bad_images=dict(max_share={share}, interval=2))\n'


@pytest.fixture
def images(tmp_path):
    """One bad file of every kind among 40 good ones."""
    folder = write_images(tmp_path / 'images', 40, 12, 12)
    for kind, (content, _) in bad_files().items():
        (folder / f'bad {kind}.jpg').write_bytes(content)
    return folder


def assert_two_epochs_log_each_once(tmp_path, images, workers, ranks=1):
    loop = "dict(type='EpochBasedTrainLoop', max_epochs=2)"
    config, more = tmp_path / 'config.py', LIMIT.format(share=0.6)
    write_config(config, images, loop, workers, pipeline=OUR_VIEWS, more=more)
    config.write_text(config.read_text().replace('drop_last=True', 'drop_last=False'))
    assert run(config, tmp_path / 'work', ranks=ranks) == [0] * ranks
    log = log_file(tmp_path / 'work').read_text()
    bad = sorted(images.glob('bad *'))
    assert len(bad) >= 18
    for path in bad:
        assert log.count(f'bad image skipped: {path}:') == 1, path


@pytest.mark.parametrize('workers', [0, 2])
def test_the_run_completes_and_each_is_logged_once(tmp_path, images, workers):
    assert_two_epochs_log_each_once(tmp_path, images, workers)


@pytest.mark.faults
def test_the_same_on_two_ranks(tmp_path, images):
    assert_two_epochs_log_each_once(tmp_path, images, workers=2, ranks=2)


def test_too_large_a_share_stops_the_run(tmp_path, images):
    config = write_config(
        tmp_path / 'config.py', images, pipeline=OUR_VIEWS, more=LIMIT.format(share=0.1)
    )
    assert run(config, tmp_path / 'work') == [STOPPED]
    assert 'more than max_share=0.1 allows' in log_file(tmp_path / 'work').read_text()
