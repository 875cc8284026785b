import pytest
from mmengine.config import Config

from ttl_mm.cli import main
from ttl_mm.errors import UserError
from ttl_mm.planning.network import with_network
from ttl_mm.planning.recipe import default_recipe
from ttl_mm.registry import MODELS


def test_a_planned_config_has_the_network_its_pixels_and_its_optimizer(tmp_path, capsys):
    out = tmp_path / 'mine.py'
    facts = ['--images', '100000', '--classes', '50', '--memory', '24', '--out', str(out)]
    assert main(['plan', *facts, '--backbone', 'timm/test_vit']) == 0
    assert '24 GB suffice for a batch of' in capsys.readouterr().out
    cfg = Config.fromfile(out)
    assert cfg.model.data_preprocessor.mean == (127.5, 127.5, 127.5)
    assert cfg.optim_wrapper.optimizer.type == 'AdamW'
    images = cfg.train_dataloader.batch_size * cfg.optim_wrapper.accumulative_counts
    assert cfg.optim_wrapper.optimizer.lr == pytest.approx(5e-4 * images / 256, rel=1e-3)
    assert 'momentum' not in cfg.optim_wrapper.optimizer
    assert MODELS.build(cfg.model.backbone).feat_dim == cfg.model.neck.in_channels == 64


def test_mistakes_end_in_one_sentence(tmp_path, capsys):
    facts = ['--images', '9999', '--out', str(tmp_path / 'mine.py')]
    assert main(['plan', *facts, '--backbone', 'timm/resnet_18']) == 2
    assert 'the nearest names are timm/resnet18' in capsys.readouterr().err
    recipe = Config.fromfile(default_recipe())
    recipe.train_dataloader.dataset.pipeline[0].views[0].size = 100
    with pytest.raises(UserError, match='makes images of 100 pixels: timm/test_vit takes 16'):
        with_network(recipe, 'timm/test_vit')
