import pytest
from mmengine.config import config as mmengine_config
from mmengine.config.utils import MODULE2PACKAGE
from mmengine.hub import hub

import ttl_mm.registry  # noqa: F401  which calls use_recipe_names
from ttl_mm.compat.recipe_names import use_recipe_names


@pytest.mark.parametrize('module', [hub, mmengine_config])
def test_ours_need_no_folder_and_others_are_split_as_before(module):
    """Fails when mmengine looks configs up in another way; tests/test_wheel.py shows the whole."""
    use_recipe_names()  # a second time
    split = module._get_package_and_cfg_path
    assert split('ttl_mm::main.py') == ('ttl_mm', 'main.py')
    assert split('ttl_mm::fast/other.py') == ('ttl_mm', 'fast/other.py')
    assert split('mmdet::faster_rcnn/one.py') == ('mmdet', 'faster_rcnn/one.py')
    assert 'ttl_mm' not in MODULE2PACKAGE  # it would look for ttl_mm.utils, and warn of its absence
    with pytest.raises(ValueError, match='please specify the package name'):
        split('mmdet::one.py')
