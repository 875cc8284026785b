"""``ttl compare`` from end to end: a trained network, its copy, untrained ones, other tools."""

import json

import cv2
import numpy as np
import pytest
import timm
import torch
from torch.nn import functional as F

from tests.helpers.browser import opened
from tests.helpers.checkpoints import below, random_network
from tests.helpers.work_dirs import write_start
from ttl_mm.cli import main
from ttl_mm.evaluation.data import labeled_folder
from ttl_mm.evaluation.model import load_model
from ttl_mm.explore.contestants import contestant_names
from ttl_mm.explore.finetune import finetune_classify, moved

PER_CLASS, EDGE = 30, 32


def patterned(rng, kind):
    """Columns, rows or a checkerboard of any phase, width and two colors, under noise."""
    x, y = (np.arange(EDGE) * rng.uniform(0.6, 1.2) + rng.uniform(0, 6) for _ in range(2))
    columns, rows = np.sin(x)[None].repeat(EDGE, 0), np.sin(y)[:, None].repeat(EDGE, 1)
    wave = (columns, rows, columns * rows)[kind]
    colors = rng.uniform(60, 200, (2, 3))
    image = np.where(wave[..., None] > 0, colors[0], colors[1])
    return np.clip(image + rng.normal(0, 25, image.shape), 0, 255).astype(np.uint8)


@pytest.fixture(scope='module')
def root(tmp_path_factory):
    """Three classes of patterns; a network that was trained on others like them; and its copy."""
    root = tmp_path_factory.mktemp('compare')
    rng = np.random.default_rng(0)
    for number, name in enumerate(('columns', 'rows', 'squares')):
        (root / 'data' / name).mkdir(parents=True)
        for i in range(PER_CLASS):
            cv2.imwrite(str(root / 'data' / name / f'{i}.png'), patterned(rng, number))
    network = trained_network(rng)
    state = {'state_dict': below('backbone.', network.state_dict())}
    for name in ('trained', 'copy'):
        torch.save(state, root / f'{name}.pth')
    return root


def trained_network(rng):
    """A small network after some supervised steps on other patterns."""
    network = random_network(0)
    network.train()  # which returns nothing in mmpretrain
    last = torch.nn.Linear(64, 3)
    optimizer = torch.optim.AdamW([*network.parameters(), *last.parameters()], 3e-3)
    for _ in range(30):
        labels = rng.integers(3, size=48)
        images = np.stack([patterned(rng, label)[..., ::-1] for label in labels])
        inputs = torch.from_numpy((images - 120.0) / 58).float().permute(0, 3, 1, 2)
        logits = last(network(inputs)[-1].mean((2, 3)))
        loss = F.cross_entropy(logits, torch.from_numpy(labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network


def compare(root, out, *words):
    common = ('--data', root / 'data', '--workers', 0, '--seeds', 2, '--size', EDGE)
    if '--protocols' not in words:
        common += ('--protocols', 'knn')
    return main(['compare', *map(str, [*words, *common, '--out', out])])


def test_equal_checkpoints_show_no_difference(root, tmp_path, capsys):
    for number, other in enumerate(('copy.pth', 'trained.pth')):
        out = tmp_path / str(number)
        assert compare(root, out, root / 'trained.pth', root / other) == 0
        first = capsys.readouterr().out.splitlines()[0]
        name = 'copy.pth' if other == 'copy.pth' else 'trained.pth (2)'
        assert first.startswith(f'No difference between trained.pth and {name} can be seen: +0.0')
        found = json.loads((out / 'comparison.json').read_text())
        assert found['ahead'][name]['knn'] == {'mean': 0, 'low': 0, 'high': 0}


def test_trained_against_random_is_yes_with_an_interval(root, tmp_path, capsys, browser):
    protocols = ('--protocols', 'knn', 'linear', 'lowshot')
    assert compare(root, tmp_path / 'out', root / 'trained.pth', 'random', *protocols) == 0
    first = capsys.readouterr().out.splitlines()[0]
    found = json.loads((tmp_path / 'out/comparison.json').read_text())
    ahead = found['ahead']['random']
    assert ahead['knn']['low'] > 0
    knn = ahead['knn']
    interval = f'(95 % interval {knn["low"]:+.1f} to {knn["high"]:+.1f})'
    points = f'{knn["mean"]:+.1f} points of kNN, 20 neighbors {interval}'
    assert first == f'Yes: trained.pth is better than random, {points}.'
    means = {name: value['mean'] for name, value in found['accuracy']['knn'].items()}
    assert knn['mean'] == pytest.approx(means['trained.pth'] - means['random'])
    assert found['cost'] == {'trained.pth': 'unknown: no log beside the file', 'random': 'none'}
    for width in (1200, 400):
        with opened(browser, tmp_path / 'out/index.html', width) as tab:
            assert tab.locator('.lead').inner_text() == first
            row = tab.locator('#accuracy-and-cost tbody tr').nth(1).inner_text().split('\n')
            assert row[0].startswith('random')
            assert 'none' in row[-1]  # the cost stands beside the accuracy
            assert tab.evaluate('document.documentElement.scrollWidth') <= width


def test_among_several_the_first_sentence_is_about_all(root, tmp_path, capsys):
    words = (root / 'trained.pth', root / 'copy.pth', 'random')
    assert compare(root, tmp_path / 'out', *words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == 'In part: trained.pth is better than random, but not than copy.pth.'
    assert lines[1].startswith('No difference between trained.pth and copy.pth')
    assert lines[2].startswith('Yes: trained.pth is better than random')
    assert compare(root, tmp_path / 'other', 'random', 'random') == 2
    assert 'name a checkpoint' in capsys.readouterr().err


def test_fine_tuning_is_an_option(root, tmp_path, capsys):
    words = (root / 'trained.pth', 'random', '--protocols', 'finetune', '--epochs', 4)
    assert compare(root, tmp_path / 'out', *words) == 0
    found = json.loads((tmp_path / 'out/comparison.json').read_text())
    assert found['ahead']['random']['finetune']['low'] > 0
    assert found['accuracy']['finetune']['trained.pth']['mean'] > 85
    assert 'points of fine-tuning' in capsys.readouterr().out


def test_fine_tuning_learns_and_leaves_the_network_as_it_was(root):
    backbone, preprocessor, _ = load_model(str(root / 'trained.pth'), device='cpu')
    before = {name: tensor.clone() for name, tensor in backbone.state_dict().items()}
    data = labeled_folder(root / 'data', EDGE)
    rows, labels = np.arange(0, len(data), 2), data.get_gt_labels()
    settings = (backbone, preprocessor, data, rows, data)
    found = finetune_classify(*settings, epochs=5, seed=0)
    assert (found == labels).mean() > 0.9  # by chance: 0.33
    assert all(torch.equal(tensor, before[n]) for n, tensor in backbone.state_dict().items())
    again = [finetune_classify(*settings, epochs=1, seed=1) for _ in range(2)]
    assert np.array_equal(*again)


def test_images_are_mirrored_and_shifted():
    images = torch.arange(2 * 3 * 16 * 16.0).view(2, 3, 16, 16)
    found = moved(images.repeat(20, 1, 1, 1), torch.Generator().manual_seed(0))
    assert found.shape == (40, 3, 16, 16)
    steps = found[:, 0, 8, 9] - found[:, 0, 8, 8]
    assert set(steps.tolist()) == {-1, 1}
    assert len({float(image[0, 8, 8]) for image in found}) > 15


def test_weights_of_another_tool_and_random_ones_like_them(root, tmp_path, capsys):
    torch.manual_seed(0)
    torch.save(timm.create_model('test_vit').state_dict(), root / 'theirs.pth')
    theirs = f'{root / "theirs.pth"}@timm/test_vit'
    assert compare(root, tmp_path / '1', root / 'trained.pth', theirs) == 0
    assert 'Yes: trained.pth is better than theirs.pth' in capsys.readouterr().out
    assert compare(root, tmp_path / '2', theirs, 'random') == 0
    accuracy = json.loads((tmp_path / '2/comparison.json').read_text())['accuracy']['knn']
    assert accuracy.keys() == {'theirs.pth', 'random'}
    drawn = [
        load_model(str(root / 'theirs.pth'), device='cpu', network='timm/test_vit', untrained=seed)
        for seed in (0, 0, 1)
    ]
    weights = [network.net.pos_embed for network, _, _ in drawn]  # of no layer of torch
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_features_of_another_tool_are_judged_as_those_of_the_network(root, tmp_path, capsys):
    table = tmp_path / 'theirs.csv'
    weights = ('--weights', root / 'trained.pth', '--workers', 0, '--size', EDGE)
    assert main(['embed', *map(str, (root / 'data', *weights, '--out', table))]) == 0
    assert compare(root, tmp_path / 'out', root / 'trained.pth', table) == 0
    assert 'No difference between trained.pth and theirs.csv' in capsys.readouterr().out
    table.write_text('\n'.join(table.read_text().splitlines()[:20]) + '\n')
    assert compare(root, tmp_path / 'less', root / 'trained.pth', table) == 2
    assert 'has no features of' in capsys.readouterr().err
    words = (root / 'trained.pth', table, '--protocols', 'finetune', '--epochs', 1)
    assert compare(root, tmp_path / 'tune', *words) == 2
    assert 'cannot be fine-tuned' in capsys.readouterr().err


def test_the_log_beside_a_checkpoint_tells_its_cost_and_what_it_has_seen(root, tmp_path, capsys):
    run = write_start(tmp_path / 'run', '1', 1, 40)
    config = f'train_dataloader = dict(dataset=dict(data_root={str(root / "data/columns")!r}))\n'
    (run / '1/vis_data/config.py').write_text(config)
    (run / 'epoch_2.pth').write_bytes((root / 'trained.pth').read_bytes())
    words = (run / 'epoch_2.pth', 'random')
    assert compare(root, tmp_path / 'out', *words) == 0
    assert '6 of the 18 test images are among the images of epoch_2.pth' in capsys.readouterr().out
    found = json.loads((tmp_path / 'out/comparison.json').read_text())
    assert found['cost']['epoch_2.pth'] == '0.3 core min'  # 40 steps of half a second
    seen = ('--seen', root / 'data/rows')
    assert compare(root, tmp_path / 'seen', *words, *seen) == 0
    said = capsys.readouterr().out
    assert '6 of the 18 test images are among the images of --seen, such as' in said
    assert compare(root, tmp_path / 'other', root / 'trained.pth', 'random') == 0
    assert 'was not checked: name them with --seen' in capsys.readouterr().out


def test_names_differ_whatever_the_files_are_called():
    sources = ['a/x.pth', 'random', 'b/x.pth', './random', 'a/x.pth', 'random', 'ttl_mm://x']
    names = contestant_names(sources)
    assert len(set(names)) == len(sources)
    assert names[:3] == ['a/x.pth', 'random', 'b/x.pth']
    assert names[3:6] == ['random (2)', 'a/x.pth (2)', 'random (3)']
