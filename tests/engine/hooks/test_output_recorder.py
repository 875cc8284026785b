import torch
from torch import nn

from ttl_mm.engine.hooks.output_recorder import OutputRecorder


class Pair(nn.Module):
    def forward(self, x):
        return x, 2 * x


def test_every_pass_is_recorded_until_it_stops_and_nothing_afterwards():
    recorder, layer, pair = OutputRecorder(), nn.Linear(2, 2), Pair()
    model = nn.ModuleDict({'parts': nn.Sequential(layer), 'pair': pair})
    recorder.start(model, {'layer': 'parts.0', 'pair': 'pair', 'missing': 'neck'})
    assert recorder.recording
    x = torch.ones(3, 2)
    expected = [layer(x), layer(-x)]
    pair(x)
    outputs = recorder.stop()
    assert not recorder.recording
    assert outputs.keys() == {'layer', 'pair'}
    assert all(a.equal(b) for a, b in zip(outputs['layer'], expected, strict=True))
    assert not outputs['layer'][0].requires_grad
    assert outputs['pair'][0].equal(2 * x)  # the last of a tuple
    layer(x)
    assert recorder.stop() == {}
