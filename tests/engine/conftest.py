import pytest

from tests.helpers.toy_run import make_images


@pytest.fixture(scope='session')
def images(tmp_path_factory):
    """22 of them: four epochs of five batches are the 20 iterations of a toy run."""
    return make_images(tmp_path_factory.mktemp('images'))
