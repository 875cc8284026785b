"""``ttl train`` and ``ttl_mm.pretrain``: from a folder to a backbone, and every way to go wrong."""

import os
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from mmengine.config import Config

import ttl_mm
from tests.helpers.checkpoints import assert_bit_equal, make_resnet
from tests.helpers.forked import fork, wait
from tests.helpers.images import make_folder, write_images
from tests.helpers.toy_run import SignalHook, final_state, run
from ttl_mm.checkpoint.load import load_backbone_state
from ttl_mm.cli import main
from ttl_mm.engine.runner import processes
from ttl_mm.engine.runner.launch import train
from ttl_mm.evaluation.probe import KNN
from ttl_mm.gauges.forecast import references
from ttl_mm.planning.request import Request
from ttl_mm.planning.train_config import read_train_recipe
from ttl_mm.planning.train_plan import TrainPlan
from ttl_mm.planning.trial import run_trial
from ttl_mm.planning.view_growth import FULL, SMALL
from ttl_mm.pretraining import plan
from ttl_mm.pretraining.plan import Planner

LENGTH = ['--size', '32', '--epochs', '2']


@pytest.fixture(scope='module')
def photos(tmp_path_factory):
    """48 of them in three folders: one step an epoch."""
    return make_folder(tmp_path_factory.mktemp('data') / 'photos', count=16)


@pytest.fixture(scope='module')
def line(photos, tmp_path_factory):
    out = tmp_path_factory.mktemp('runs') / 'first'
    return ['train', str(photos), *LENGTH, '--labels', str(photos), '--out', str(out)]


@pytest.fixture(scope='module')
def tried(forked):
    """The first run is tried; the others have its network, and are planned by what that cost."""
    measured = []

    def run_first(*arguments):
        if not measured:
            measured.append(run_trial(*arguments))
        return measured[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, 'run_trial', run_first)
        yield


@pytest.fixture(scope='module')
def finished(line, tried):
    """A run that has ended, and what it said."""
    said = []
    ended = ttl_mm.pretrain(line[1], line[-1], size=32, epochs=2, labels=line[1], say=said.append)
    return ended, '\n'.join(said)


def test_a_folder_becomes_a_backbone_a_report_and_three_lines(finished):
    ended, said = finished
    assert {name: path.name for name, path in ended.paths.items()} == {
        'out': 'first', 'checkpoint': 'epoch_2.pth', 'backbone': 'backbone.pth',
        'report': 'index.html',
    }  # fmt: skip
    plan = said.partition('\nbackbone')[0].splitlines()[1:]
    rows = 'images network size device decoded batch k epochs steps speed time memory disk recipe !'
    assert [row.split()[0] for row in plan] == [*rows.split(), '--epochs']
    assert 'learns little in 2 steps' in plan[-2]
    assert max(map(len, plan)) <= 80  # of a terminal
    page = ended.paths['report'].read_text()
    assert 'Pre-training on photos' in page
    assert 'Before and after' in page  # neighbors, among the labeled images
    scope = {}
    exec('\n'.join(row.strip() for row in said.splitlines()[-3:]), scope)  # as a user would
    images = torch.rand(2, 3, 64, 64)
    network = torch.nn.Sequential(*list(scope['network'].eval().children())[:-2])
    torch.testing.assert_close(network(images), ended.backbone(images)[-1])
    assert [record['iter'] for record in ended.history if 'loss' in record] == [1, 2]
    assert sum('probe/knn_top1' in record for record in ended.history) == 3


def test_the_same_line_after_the_end_says_so_and_adds_a_layout(finished, line, capsys):
    files = list(finished[0].paths['out'].rglob('*.*'))
    before = [path.stat().st_mtime_ns for path in files]
    assert main([*line, '--export', 'timm']) == 0
    printed = capsys.readouterr().out
    assert 'is finished already' in printed
    assert "timm.create_model('resnet18'" in printed
    assert (finished[0].paths['out'] / 'backbone_timm.pth').is_file()
    assert [path.stat().st_mtime_ns for path in files] == before


def test_an_interrupted_run_continues_to_the_same_weights(finished, photos, tmp_path, capsys):
    out = tmp_path / 'second'
    line = ['train', str(photos), *LENGTH, '--out', str(out)]  # kNN does not change the weights
    stop = {'+custom_hooks': [{'type': SignalHook.__name__, 'at': 1}]}

    def train_and_stop(config, work_dir, **options):
        train(config, work_dir, cfg_options=stop if work_dir == str(out) else None, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, 'train', train_and_stop)
        assert main(line) == 75
    assert 'is not finished. The same line continues it.' in capsys.readouterr().err
    assert not (out / 'backbone.pth').exists()
    assert main(line) == 0
    assert f'Continuing {out}' in capsys.readouterr().out
    assert_bit_equal(final_state(out), final_state(finished[0].paths['out']))


def test_the_config_gives_the_same_weights(finished, photos, tmp_path, capsys):
    config = tmp_path / 'mine.py'
    line = ['train', str(photos), *LENGTH, '--config-out', str(config)]
    assert main(line) == 0
    assert f'python tools/train.py {config}' in capsys.readouterr().out
    assert run(config, tmp_path / 'work') == [0]
    assert_bit_equal(final_state(tmp_path / 'work'), final_state(finished[0].paths['out']))
    assert main(line) == 2
    assert 'mine.py exists' in capsys.readouterr().err


def test_several_sources_are_one_set_of_images_and_given_weights_the_start(
    photos, tried, tmp_path, capsys
):
    networks = {depth: make_resnet(depth) for depth in (18, 34)}
    for depth, network in networks.items():
        torch.save(network.state_dict(), tmp_path / f'{depth}.pth')
    names = tmp_path / 'names.txt'
    files = sorted(str(path) for folder in ('ant', 'cat') for path in (photos / folder).iterdir())
    names.write_text('\n'.join(files[:16]))
    job = ['train', str(photos / 'cat'), str(names), *LENGTH]
    assert main([*job, '--init', str(tmp_path / '34.pth'), '--dry-run']) == 2
    assert 'is a ResNet-34, the model a ResNet-18' in capsys.readouterr().err
    start = ['--init', str(tmp_path / '18.pth'), '--config-out', str(tmp_path / 'c.py')]
    start += ['--patience', '4']
    assert main([*job, *start]) == 0
    assert 'images   32 ' in capsys.readouterr().out
    hooks = Config.fromfile(tmp_path / 'c.py').default_hooks
    assert (hooks.judge.type, hooks.early_stop.patience) == ('ttl_mm.JudgeHook', 4)
    root = os.path.commonpath([photos, tmp_path])
    listed = (tmp_path / 'c_lists' / 'images.txt').read_text().splitlines()
    assert sorted(os.path.join(root, name) for name in listed) == files
    still = {'optim_wrapper.optimizer.lr': 0.0}
    assert run(tmp_path / 'c.py', tmp_path / 'w', cfg_options=still) == [0]
    trained = load_backbone_state(tmp_path / 'w' / 'epoch_2.pth')
    learned = {n: t for n, t in networks[18].state_dict().items() if n.endswith(('weight', 'bias'))}
    assert_bit_equal({name: trained[name] for name in learned}, learned)


def test_the_plan_of_hours_says_what_more_of_them_would_buy():
    planner = object.__new__(Planner)
    planner.request = Request(('photos',), hours=1.5)
    ((name, hours, gain),) = planner._more_hours_row()
    assert (name, hours) == ('twice as long', '3 h')
    low, median, high = (2**power - 1 for power in references()[KNN].longer)
    assert gain.startswith(f'{median:.0%} ({low:.0%} to {high:.0%}) more gain in accuracy')
    planner.request = Request(('photos',), epochs=5)
    assert planner._more_hours_row() == []


def test_the_plan_says_which_sizes_views_have_if_not_its_own():
    planner = object.__new__(Planner)
    planner.request, planner.recipe = Request(('photos',)), read_train_recipe()
    planner.found = SimpleNamespace(root=Path('photos'))
    plan = TrainPlan(1040, 'resnet18', 64, ranks=1, batch=104, workers=1, steps=500)  # 50 epochs
    for growth, rows in (
        (None, []),
        (FULL, []),
        (SMALL, [('views', '48 px', 'small for so short a run; judged at 64 px')]),
        (((0.0, 0.5), (0.4, 1.0)), [('views', '32 px', 'first; 64 px from epoch 20')]),
    ):
        assert planner._growth_row(replace(plan, growth=growth)) == rows


def test_mistakes_end_in_one_sentence_and_nothing_is_written(photos, tmp_path, capsys):
    few = write_images(tmp_path / 'few', 5, 40, 40)
    write_images(tmp_path / 'bad', 20, 40, 40, bad=range(20))
    for name in ('empty', 'other'):
        (tmp_path / name).mkdir()
    (tmp_path / 'other' / 'letter.txt').write_text('mine')
    good = str(photos)
    before = sorted(tmp_path.rglob('*'))
    for arguments, message in (
        ([str(tmp_path / 'empty')], 'no images below'),
        ([str(tmp_path / 'nowhere')], 'nowhere does not exist: name a folder'),
        ([str(few / '0.jpg')], f'0.jpg is a single image: name its folder, {few}'),
        ([str(few)], '5 images on 1 process: the smallest batch of a process is 16. Add images'),
        ([str(tmp_path / 'bad')], '20 of 20 images that were tried cannot be read'),
        ([good, '--hours', '0.001'], '--hours 0.001 is 3.6 seconds'),
        ([good, '--backbone', 'resnet5'], 'the nearest names are resnet50'),
        ([good, '--size', '16'], '--size 16 is too small for resnet18, which needs 32 pixels'),
        ([good, '--labels', str(few)], 'lies in no sub-folder'),
        ([good, '--init', str(tmp_path / 'none.pth')], 'none.pth does not exist'),
    ):
        assert main(['train', *arguments, '--out', str(tmp_path / 'out')]) == 2, arguments
        error = capsys.readouterr().err.splitlines()[-1]
        assert error.startswith('ttl train: ')
        assert message in error
    assert main(['train', good, '--out', str(tmp_path / 'other')]) == 2
    assert 'holds other files (letter.txt), and nothing is overwritten' in capsys.readouterr().err
    assert sorted(tmp_path.rglob('*')) == before


def test_the_folder_of_another_run_is_refused(finished, line, capsys):
    out = finished[0].paths['out']
    before = (out / 'backbone.pth').read_bytes()
    assert main(['train', line[1], '--size', '64', '--epochs', '2', '--out', str(out)]) == 2
    assert 'holds a run with size 32, and this line asks for 64' in capsys.readouterr().err
    assert (out / 'backbone.pth').read_bytes() == before


def as_nobody(command):
    if os.getuid() == 0:
        os.setuid(65534)
    return main(command)


def test_folders_without_rights_are_named(capfd):
    """As a user without the rights of root, in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        write_images(root / 'shut', 3, 40, 40)
        write_images(root / 'photos', 20, 40, 40)
        root.chmod(0o777)
        (root / 'shut').chmod(0)
        jobs = ([root / 'shut', root / 'run'], [root / 'photos', root / 'shut' / 'run'])
        for (images, out), message in zip(
            jobs, ('shut cannot be listed', 'run cannot be used: Permission denied')
        ):
            command = ['train', str(images), '--out', str(out)]
            assert wait([fork(partial(as_nobody, command))]) == [2]
            assert message in capfd.readouterr().err
        (root / 'shut').chmod(0o755)
