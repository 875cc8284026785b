"""The shared head against the backbone's own stage and mmpretrain's layer."""

import ttl_mm.registry  # noqa: F401  isort: skip

import torch
from mmpretrain.models import ResNet
from mmpretrain.models.utils import ResLayerExtraNorm

from ttl_mm.tasks.detection.res5 import Res5


def test_equals_the_layer_of_mmpretrain() -> None:
    ours, theirs = Res5(depth=18), ResLayerExtraNorm(depth=18, norm_eval=False)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    theirs.load_state_dict(ours.state_dict())
    regions = torch.randn(2, 256, 14, 14)
    for mode in (True, False):
        ours.train(mode), theirs.train(mode)
        torch.testing.assert_close(ours(regions), theirs(regions))


def test_names_and_shapes_are_those_of_the_backbone() -> None:
    """Also for a narrow one, which mmpretrain's layer cannot be."""
    narrow = dict(depth=18, base_channels=16)
    stage = {n: t.shape for n, t in ResNet(**narrow).state_dict().items() if 'layer4' in n}
    ours = {n: t.shape for n, t in Res5(**narrow).state_dict().items() if 'norm' not in n}
    assert ours == stage


def test_random_start_is_that_of_a_resnet() -> None:
    """Kaiming by fan-out; no residual branch starts at zero."""
    res5 = Res5(depth=18)
    res5.init_weights()
    weight = res5.layer4[1].conv1.weight
    expected = (2 / (512 * 9)) ** 0.5
    assert abs(weight.std().item() / expected - 1) < 0.01
    assert (res5.layer4[1].bn2.weight == 1).all()
