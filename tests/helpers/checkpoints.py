"""Networks and states that checkpoints are made of in tests."""

import os
from collections import OrderedDict

import torch
from mmpretrain.models import ResNet, ResNet_CIFAR


def make_resnet(depth=18, **kwargs):
    """A ResNet whose every tensor is random, running statistics included."""
    torch.manual_seed(depth)
    net = ResNet(depth=depth, **kwargs)
    for name, buffer in net.named_buffers():
        buffer.fill_(7) if 'tracked' in name else buffer.uniform_(0.5, 1.5)
    net.eval()
    return net


def random_network(seed):
    """A narrow ResNet with CIFAR's stem whose BatchNorm statistics are not the initial ones."""
    torch.manual_seed(seed)
    model = ResNet_CIFAR(18, stem_channels=8, base_channels=8)
    for parameter in (*model.parameters(), *model.buffers()):
        if parameter.is_floating_point() and parameter.ndim == 1:
            parameter.data.uniform_(0.5, 1.5)
    model.eval()
    return model


def below(prefix, state):
    """The same tensors under names that begin with ``prefix``."""
    return OrderedDict((prefix + name, tensor) for name, tensor in state.items())


def other_values(state):
    """Tensors of the same names and shapes but other values, for instance the target network's."""
    return {n: t / 2 if t.is_floating_point() else t + 1 for n, t in state.items()}


class RunsCode:
    """Pickles into a call that leaves a folder as its trace."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


def assert_bit_equal(found, state):
    """The same names, kinds and bits."""
    assert found.keys() == state.keys()
    for name, tensor in state.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor), name
