import torch

from ttl_mm.tasks.classification.standardize import LAST, Standardize, folded


def test_features_are_standardized_and_the_folded_classifier_says_the_same():
    generator = torch.Generator().manual_seed(0)
    features = 5 + 3 * torch.randn(50, 4, generator=generator)
    layer, part = torch.nn.Linear(4, 3), Standardize(4)
    (found,) = part((torch.zeros(1), features))
    torch.testing.assert_close(found.mean(0), torch.zeros(4), atol=1e-5, rtol=0)
    torch.testing.assert_close(found.std(0, correction=0), torch.ones(4))
    state = {f'neck.1.{name}': value for name, value in part.state_dict().items()}
    assert all(name.startswith(LAST) for name in state)
    state = folded({**state, 'w': layer.weight.detach(), 'b': layer.bias.detach()}, 'w', 'b')
    assert set(state) == {'w', 'b'}
    expected = layer(part.eval()((features,))[0])
    torch.testing.assert_close(features @ state['w'].T + state['b'], expected)
