import pytest

from ttl_mm.checkpoint.layouts import backbone_config
from ttl_mm.zoo.architectures import checked_architecture
from ttl_mm.zoo.manifest import read_manifest

RESNET = {'type': 'mmpretrain.ResNet', 'depth': 50}


def test_what_we_describe_is_accepted():
    described = {**RESNET, 'stem_channels': 8, 'deep_stem': True}
    assert checked_architecture(described) == described
    assert all(checked_architecture(entry.backbone) for entry in read_manifest().values())
    narrow = {'conv1.weight': (8, 3, 3, 3), 'layer1.0.conv1.weight': (8, 8, 3, 3)}
    for stage in range(1, 5):
        narrow |= {f'layer{stage}.{block}.conv2.weight': (8, 8, 3, 3) for block in (0, 1)}
    assert checked_architecture(backbone_config(narrow))['base_channels'] == 8


@pytest.mark.parametrize(
    'described',
    [
        {'type': 'subprocess.Popen', 'args': ['touch', 'x']},
        {'type': 'os.mkdir', 'path': 'x'},
        {'type': 'mmpretrain.VisionTransformer'},
        {'type': ['mmpretrain.ResNet']},
        {**RESNET, 'depth': 50.0},
        {**RESNET, 'depth': 51},
        {**RESNET, 'base_channels': 20_000},
        {**RESNET, 'stem_channels': True},
        {**RESNET, 'deep_stem': 1},
        {**RESNET, 'init_cfg': {'type': 'Pretrained', 'checkpoint': 'evil.pth'}},
        {**RESNET, 'norm_cfg': {'type': 'os.mkdir'}},
        {**RESNET, '_scope_': 'os'},
        {'type': 'mmpretrain.ResNet'},
        [],
        'mmpretrain.ResNet',
    ],
)
def test_anything_else_is_refused(described):
    with pytest.raises(ValueError, match='its backbone'):
        checked_architecture(described)
