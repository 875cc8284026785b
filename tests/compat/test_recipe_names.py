import pytest
from mmengine.config import config as mmengine_config
from mmengine.config.utils import MODULE2PACKAGE, _get_external_cfg_base_path
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


def test_a_base_in_another_package_is_its_file_and_no_index_is_read(tmp_path):
    """The path is the one that mmengine comes to after it has looked through the index in vain."""
    find, root = mmengine_config._get_external_cfg_path, str(tmp_path)
    config = tmp_path / '.mim/configs/faster_rcnn/one.py'
    config.parent.mkdir(parents=True)
    config.touch()
    (tmp_path / '.mim/model-index.yml').write_text('Import: [metafile.yml]')
    found = find(root, 'faster_rcnn/one.py')  # the metafile is not there
    assert found == _get_external_cfg_base_path(root, 'faster_rcnn/one.py') == str(config)
    model = '{Name: one, Config: configs/faster_rcnn/one.py}'
    (tmp_path / '.mim/metafile.yml').write_text(f'Models: [{model}]')
    for name in ('faster_rcnn/one.py', 'faster_rcnn/other.py'):
        with pytest.raises(ValueError, match='Expected configs'):
            find.__wrapped__(root, name)
    with pytest.raises(ValueError, match='Expected configs'):
        find(root, 'faster_rcnn/other.py')
