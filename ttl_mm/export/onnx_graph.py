"""A ResNet as an ONNX graph whose initializers keep the names of the tensors.

Written node by node: tracing would fold or rename the tensors and record paths of this machine.
"""

import json
from functools import partial
from typing import Any

from torch import Tensor

OPSET, IR_VERSION = 17, 8  # read by every onnxruntime since 1.12
EPSILON = 1e-5  # of the batch norms


class _Graph:
    """Collects nodes; every method adds one and returns the name of its output."""

    def __init__(self, state: dict[str, Tensor]):
        self.state = state
        self.nodes: list[Any] = []

    def add(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(kind, inputs, [output], output, **attributes))
        return output

    def conv(self, x: str, name: str, stride: int = 1) -> str:
        kernel = self.state[f'{name}.weight'].shape[-1]
        strides, pads = [stride] * 2, [kernel // 2] * 4
        return self.add('Conv', [x, f'{name}.weight'], f'{name}.out', strides=strides, pads=pads)

    def norm(self, x: str, name: str) -> str:
        parts = [f'{name}.{p}' for p in ('weight', 'bias', 'running_mean', 'running_var')]
        return self.add('BatchNormalization', [x, *parts], f'{name}.out', epsilon=EPSILON)

    def relu(self, x: str) -> str:
        return self.add('Relu', [x], f'{x}.relu')

    def block(self, x: str, name: str, stride: int) -> str:
        """Two or three convolutions and the way around them; the 3x3 one has the stride."""
        n_convs = 3 if f'{name}.conv3.weight' in self.state else 2
        strided = 2 if n_convs == 3 else 1
        y = x
        for i in range(1, n_convs + 1):
            y = self.conv(y, f'{name}.conv{i}', stride if i == strided else 1)
            y = self.norm(y, f'{name}.bn{i}')
            y = self.relu(y) if i < n_convs else y
        if f'{name}.downsample.0.weight' in self.state:
            x = self.norm(self.conv(x, f'{name}.downsample.0', stride), f'{name}.downsample.1')
        return self.relu(self.add('Add', [y, x], f'{name}.sum'))


def resnet_graph(state: dict[str, Tensor], meta: dict[str, Any]) -> Any:
    """An ``onnx.ModelProto`` that maps images to the last feature map and its spatial mean."""
    from onnx import TensorProto, helper, numpy_helper

    floats = partial(helper.make_tensor_value_info, elem_type=TensorProto.FLOAT)
    graph = _Graph(state)
    small = meta['backbone']['type'] == 'mmpretrain.ResNet_CIFAR'
    x = graph.relu(graph.norm(graph.conv('images', 'conv1', 1 if small else 2), 'bn1'))
    if not small:
        x = graph.add('MaxPool', [x], 'pool', kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    blocks = sorted({tuple(n.split('.')[:2]) for n in state if n.startswith('layer')},
                    key=lambda block: (block[0], int(block[1])))  # fmt: skip
    for stage, number in blocks:
        x = graph.block(x, f'{stage}.{number}', 2 if number == '0' and stage != 'layer1' else 1)
    graph.add('Identity', [x], 'feature_map')
    graph.add('ReduceMean', [x], 'features', axes=[2, 3], keepdims=0)

    weights = {n: t.float() for n, t in state.items() if t.is_floating_point()}
    inputs = state['conv1.weight'].shape[1]
    channels = max(len(tensor) for name, tensor in weights.items() if name.endswith('bias'))
    proto = helper.make_graph(
        graph.nodes,
        'backbone',
        [floats('images', shape=['batch', inputs, 'height', 'width'])],
        [
            floats('feature_map', shape=['batch', channels, 'map_height', 'map_width']),
            floats('features', shape=['batch', channels]),
        ],
        [numpy_helper.from_array(t.numpy(), n) for n, t in weights.items()],
    )
    opset = helper.make_opsetid('', OPSET)
    model = helper.make_model(proto, opset_imports=[opset], ir_version=IR_VERSION)
    counters = {n: t.item() for n, t in state.items() if n not in weights}
    properties = {'ttl_mm': meta, 'num_batches_tracked': counters}
    helper.set_model_props(
        model, {key: json.dumps(value, sort_keys=True) for key, value in properties.items()}
    )
    return model
