"""A folder for the hub of Hugging Face: its library accepts it, timm computes the same."""

import json

import pytest
import timm
import torch
from huggingface_hub import CommitOperationAdd, ModelCard, load_state_dict_from_file
from huggingface_hub.utils import validate_repo_id

from ttl_mm.checkpoint.load import load_backbone_state
from ttl_mm.cli import main
from ttl_mm.errors import UserError
from ttl_mm.export import export_to_hub
from ttl_mm.zoo.cache import sha256_of


@pytest.fixture
def figures(checkpoints, tmp_path):
    """Figures of `ttl eval` about the ResNet-18."""
    figure = {
        'protocol': 'weighted kNN, cosine', 'k': 20, 'temperature': 0.07, 'metric': 'top-1 (%)',
        'value': 51.25, 'checkpoint_sha256': sha256_of(checkpoints / 'r18.pth'), 'classes': 10,
        'test': {'images': 500, 'fingerprint': 'f' * 64},
    }  # fmt: skip
    path = tmp_path / 'figures.json'
    path.write_text(json.dumps([figure]))
    return path


def test_timm_loads_the_folder_and_computes_the_same(nets, checkpoints, tmp_path):
    folder = export_to_hub(checkpoints / 'r18.pth', tmp_path / 'hub')
    assert {path.name for path in folder.glob('[!.]*')} == {
        'README.md', 'config.json', 'model.safetensors'
    }  # fmt: skip
    images = torch.randn(2, 3, 64, 64)
    net = timm.create_model(f'local-dir:{folder}', pretrained=True).eval()
    with torch.no_grad():
        wanted = nets[18](images)[-1].mean((2, 3))
        torch.testing.assert_close(net(images), wanted, atol=1e-5, rtol=1e-5)


def test_the_hub_accepts_the_card_and_the_files(checkpoints, figures, tmp_path):
    folder = export_to_hub(checkpoints / 'r18.pth', tmp_path / 'hub', figures=[figures])
    card = ModelCard.load(folder / 'README.md')  # raises on metadata that the hub refuses
    assert (card.data.license, card.data.library_name) == ('apache-2.0', 'timm')
    (result,) = card.data.eval_results
    assert (result.metric_value, result.metric_type) == (51.25, 'accuracy')
    assert result.dataset_name.startswith('500 images of 10 classes')
    assert f'`{sha256_of(folder / "model.safetensors")}`' in card.text
    assert json.loads((folder / 'config.json').read_text())['architecture'] == 'resnet18'
    validate_repo_id(f'somebody/{folder.name}')
    for path in folder.glob('[!.]*'):
        assert CommitOperationAdd(path.name, path).upload_info.size == path.stat().st_size
    assert load_state_dict_from_file(folder / 'model.safetensors')['conv1.weight'].ndim == 4


def test_a_network_that_timm_lacks_keeps_its_names(tmp_path, capsys):
    main(['export', 'ttl_mm://ttl_r18_digits', '--to', 'huggingface', '--out', str(tmp_path / 'x')])
    card = ModelCard.load(tmp_path / 'x' / 'README.md')
    assert card.data.library_name == 'ttl_mm'
    assert {result.metric_value for result in card.data.eval_results} == {98.16, 99.33}
    state = load_backbone_state(tmp_path / 'x' / 'model.safetensors')
    assert state['conv1.weight'].shape == (16, 3, 3, 3)
    assert 'hf upload USER/x' in capsys.readouterr().out


def test_figures_of_other_weights_are_refused(checkpoints, figures, tmp_path):
    with pytest.raises(UserError, match='figures of other weights'):
        export_to_hub(checkpoints / 'r50.pth', tmp_path / 'hub', figures=[figures])
    figures.write_text('[{}]')
    with pytest.raises(UserError, match=r'no figures\.json'):
        export_to_hub(checkpoints / 'r18.pth', tmp_path / 'hub', figures=[figures])
    assert not (tmp_path / 'hub').exists()
