"""Published files hold weights and facts, under the prefix of their true SHA-256."""

import hashlib
import json

import numpy as np
import pytest
import torch
from mmengine.logging import HistoryBuffer
from mmpretrain.models import ResNet

from tests.helpers.checkpoints import assert_bit_equal, below, other_values
from ttl_mm.checkpoint.load import fetch_checkpoint as fetch
from ttl_mm.checkpoint.load import load_backbone_state
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.cli import main
from ttl_mm.errors import UserError
from ttl_mm.export.publish import publish
from ttl_mm.zoo.manifest import find_entry


@pytest.fixture(scope='module')
def state():
    return ResNet(depth=18, stem_channels=8, base_channels=8).state_dict()


@pytest.fixture
def checkpoint(state, tmp_path):
    """What a training run leaves: networks, optimizer, random state, logs, config text."""
    networks = below('backbone.', state) | below('target_backbone.', other_values(state))
    for part in ('neck', 'head.predictor', 'target_neck'):
        networks[f'{part}.fc0.weight'] = torch.zeros(2, 2)
    content = {
        'meta': {'epoch': 3, 'iter': 99, 'cfg': 'import os', 'experiment_name': '/home/me/x'},
        'state_dict': networks,
        'optimizer': {'state': {0: {'momentum_buffer': torch.zeros(1000)}}},
        'message_hub': {'loss': HistoryBuffer([1.0], [1])},
        'rng': {'torch': torch.get_rng_state(), 'numpy': np.arange(3)},
    }
    torch.save(content, tmp_path / 'epoch_3.pth')
    return tmp_path / 'epoch_3.pth'


@pytest.mark.parametrize('suffix', ['.pth', '.safetensors'])
def test_backbone(checkpoint, state, tmp_path, suffix):
    path, entry = publish(checkpoint, 'tiny', tmp_path / 'out', suffix=suffix)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert path.name == f'tiny-{digest[:8]}{suffix}'
    assert (entry['sha256'], entry['size']) == (digest, path.stat().st_size)
    assert_bit_equal(load_backbone_state(path), state)
    assert publish(checkpoint, 'tiny', tmp_path / 'again', suffix=suffix)[0].name == path.name
    assert b'import os' not in path.read_bytes()
    assert b'/home/me' not in path.read_bytes()


def test_the_card_tells_hash_figures_and_what_is_not_known(checkpoint, tmp_path):
    path, entry = publish(checkpoint, 'tiny', tmp_path / 'out', about='Nothing on nothing.')
    card = path.with_suffix('.md').read_text()
    assert f'| SHA-256 | `{entry["sha256"]}` |' in card
    assert 'Nothing on nothing.' in card
    assert 'Nothing has been measured with this file.' in card
    figure = {
        'protocol': 'weighted kNN, cosine', 'k': 20, 'metric': 'top-1 (%)', 'value': 51.25,
        'checkpoint_sha256': hashlib.sha256(checkpoint.read_bytes()).hexdigest(), 'classes': 10,
        'test': {'images': 500, 'fingerprint': 'f' * 64},
    }  # fmt: skip
    figures = tmp_path / 'figures.json'
    figures.write_text(json.dumps([figure]))
    path, entry = publish(checkpoint, 'other', tmp_path / 'out', figures=[figures])
    assert entry['results'][0]['value'] == 51.25
    assert '| weighted kNN, cosine, k 20, top-1 (%) | 51.25 | 500 images of 10 classes' in (
        path.with_suffix('.md').read_text()
    )
    assert find_entry('other', path.with_suffix('.json')).results[0]['source'] == 'measured'


def test_files_of_others_are_replaced_only_if_asked(checkpoint, tmp_path):
    path, _ = publish(checkpoint, 'tiny', tmp_path)
    assert publish(checkpoint, 'tiny', tmp_path)[0] == path  # the same again
    content = path.read_bytes()
    path.write_text('of somebody else')
    with pytest.raises(UserError, match=r'exists: .* add --overwrite'):
        publish(checkpoint, 'tiny', tmp_path)
    assert path.read_text() == 'of somebody else'
    publish(checkpoint, 'tiny', tmp_path, overwrite=True)
    assert path.read_bytes() == content


def test_meta_is_plain_and_optimizer_gone(checkpoint, tmp_path):
    path, _ = publish(checkpoint, 'tiny', tmp_path / 'out', kind='networks')
    content = torch.load(path, weights_only=True)
    assert content.keys() == {'meta', 'state_dict'}
    assert json.loads(json.dumps(content['meta'])) == content['meta']
    assert content['meta'].keys().isdisjoint({'cfg', 'config', 'experiment_name'})
    assert (content['meta']['epoch'], content['meta']['iter']) == (3, 99)
    assert_bit_equal(content['state_dict'], read_checkpoint(checkpoint)['state_dict'])


def test_bad_names_bare_backbones_and_overflow_in_half_are_refused(checkpoint, state, tmp_path):
    for name in ('../evil', 'With Space', ''):
        with pytest.raises(UserError, match='use lower-case letters'):
            publish(checkpoint, name, tmp_path / 'out')
    assert not (tmp_path / 'out').exists()
    torch.save({'state_dict': below('backbone.', state)}, tmp_path / 'a.pth')
    with pytest.raises(UserError, match=r'has no neck\.\*'):
        publish(tmp_path / 'a.pth', 'tiny', tmp_path / 'out', kind='networks')
    full, _ = publish(checkpoint, 'tiny', tmp_path / 'a', suffix='.safetensors')
    half, _ = publish(checkpoint, 'tiny', tmp_path / 'b', suffix='.safetensors', half=True)
    assert half.stat().st_size < 0.6 * full.stat().st_size
    weight = load_backbone_state(half)['conv1.weight']
    assert torch.equal(weight, state['conv1.weight'].half())
    torch.save({**state, 'bn1.running_var': torch.full((8,), 1e6)}, tmp_path / 'a.pth')
    with pytest.raises(UserError, match=r'not finite in backbone\.bn1\.running_var'):
        publish(tmp_path / 'a.pth', 'tiny', tmp_path / 'out', half=True)


def test_command_writes_an_entry_that_the_zoo_takes(checkpoint, tmp_path, capsys):
    arguments = ['--name', 'tiny', '--out', str(tmp_path / 'out'), '--about', 'a test']
    assert main(['zoo', 'publish', str(checkpoint), *arguments]) == 0
    path = next((tmp_path / 'out').glob('*.pth'))
    assert str(path) in capsys.readouterr().out
    entry = find_entry('tiny', path.with_suffix('.json'))
    assert fetch(entry, tmp_path / 'cache') == path
    narrow = {'stem_channels': 8, 'base_channels': 8}
    assert entry.backbone == {'type': 'mmpretrain.ResNet', 'depth': 18, **narrow}
