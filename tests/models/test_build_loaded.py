import tracemalloc

import pytest
import torch
from safetensors.torch import save_file

from tests.helpers.checkpoints import assert_bit_equal, make_resnet
from ttl_mm.checkpoint.coverage import shapes_of
from ttl_mm.checkpoint.layouts import backbone_config
from ttl_mm.checkpoint.load import load_backbone_state
from ttl_mm.cli import main
from ttl_mm.errors import UserError
from ttl_mm.models.build_loaded import WithoutWeights, build_loaded


def test_a_network_is_built_and_loaded():
    state = make_resnet(18, stem_channels=8, base_channels=8).state_dict()
    assert_bit_equal(
        build_loaded(backbone_config(shapes_of(state)), state, 'x').state_dict(), state
    )


def test_shapes_that_promise_a_huge_network_are_refused_before_it_is_made(tmp_path, capsys):
    """A real file of 100 kB for a network of 6 TB."""
    state = make_resnet(18, stem_channels=8, base_channels=8).state_dict()
    bomb = {name: torch.zeros(1) for name in state}
    bomb['layer1.0.conv1.weight'] = torch.zeros(20_000, 1)
    bomb['conv1.weight'] = torch.zeros(20_000, 1, 1, 7)
    tracemalloc.start()
    with pytest.raises(UserError, match='instead of'):
        build_loaded(backbone_config(shapes_of(bomb)), bomb, 'x')
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()
    empty = {**bomb, 'layer1.0.conv1.weight': torch.zeros(20_000, 0, 3, 3)}
    for name, save in {'a.pth': torch.save, 'a.safetensors': save_file}.items():
        save(empty, tmp_path / name)
        with pytest.raises(UserError, match='has no values'):
            load_backbone_state(tmp_path / name)
        for command, *more in (['import'], ['export', '--to', 'onnx'], ['eval', '--data', '/tmp']):
            assert main([command, str(tmp_path / name), *more]) == 2
            assert 'has no values' in capsys.readouterr().err


def test_only_large_tensors_have_no_memory():
    with WithoutWeights():
        large, small = torch.empty(1 << 40), torch.zeros(3)
    assert (large.device.type, small.tolist()) == ('meta', [0, 0, 0])
