import pytest
import torch

from ttl_mm.errors import UserError
from ttl_mm.models.libraries import LIBRARIES, build_network, library_names, remove_classifier


def test_every_library_lists_networks_that_can_be_built():
    for library, name in (
        ('timm', 'test_vit'), ('torchvision', 'squeezenet1_1'), ('mmpretrain', 'lenet5_mnist'),
    ):  # fmt: skip
        assert f'{library}/{name}' in library_names(library)
    assert set(LIBRARIES) == {'timm', 'torchvision', 'mmpretrain', 'module'}
    squeezed = build_network('torchvision/squeezenet1_1').network.eval()
    with torch.no_grad():
        assert squeezed(torch.zeros(1, 3, 64, 64)).shape == (1, 512)  # no classes


def test_only_listed_names_are_built():
    for name in ('timm/hf-hub:someone/theirs', 'mmpretrain/../../evil', 'os/system', 'resnet18'):
        with pytest.raises(UserError, match='is no network of timm, torchvision or mmpretrain'):
            build_network(name)


def test_a_size_that_a_network_cannot_have_is_one_sentence():
    with pytest.raises(UserError, match='resnet18 cannot be built for images of 64 pixels here'):
        build_network('torchvision/resnet18', 64)
    with pytest.raises(UserError, match='for images of 100000 pixels: use 1 to 4096'):
        build_network('timm/test_vit', 100000)


def test_a_network_without_classes_is_refused():
    with pytest.raises(UserError, match='has no layer with 1000 classes'):
        remove_classifier(torch.nn.Conv2d(3, 4, 1), 'it')
