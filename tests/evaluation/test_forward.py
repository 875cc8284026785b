import pytest
import torch
from mmpretrain.structures import DataSample

from ttl_mm.errors import UserError
from ttl_mm.evaluation.forward import evaluating, output_stages, pooled, require_labels


def test_modes_and_stages_are_put_back(network):
    network.train()
    network.layer1.eval()
    before = [part.training for part in network.modules()]
    with evaluating(network), output_stages(network, (1, 3)):
        assert not any(part.training for part in network.modules())
        assert network.out_indices == (0, 2)
    assert [part.training for part in network.modules()] == before
    assert network.out_indices == (3,)
    network.eval()
    with pytest.raises(UserError, match='stages 1 to 4'), output_stages(network, (5,)):
        pass


def test_outputs_are_averaged_over_their_positions_and_labels_required():
    maps = torch.arange(24.0).view(2, 3, 2, 2)
    (found,) = pooled(maps)
    assert found.tolist() == [[1.5, 5.5, 9.5], [13.5, 17.5, 21.5]]
    assert pooled([found])[0] is found
    labeled = DataSample().set_gt_label(3)
    assert require_labels([labeled, labeled]).tolist() == [3, 3]
    with pytest.raises(UserError, match=r'x/y\.png has no label'):
        require_labels([labeled, DataSample(metainfo={'img_path': 'x/y.png'})])
