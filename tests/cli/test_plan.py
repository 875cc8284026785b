import re
import subprocess
import sys

from mmengine.config import Config

from tests.helpers.digits_run import DIGITS
from tests.helpers.images import make_folder
from ttl_mm.cli import main
from ttl_mm.engine.runner.launch import train

SMALL_NETWORK = {
    'model.backbone': {'type': 'ResNet_CIFAR', 'depth': 18, 'base_channels': 4, 'stem_channels': 4},
    'model.neck': {'in_channels': 32, 'hid_channels': 16, 'out_channels': 8},
    'model.head.predictor': {'in_channels': 8, 'hid_channels': 16, 'out_channels': 8},
    'model.online_sizes': (16, 16),
    'model.target_sizes': (16, 16),
    'train_dataloader': {'num_workers': 0, 'persistent_workers': False},
    'default_hooks.logger.interval': 1,
    'log_level': 'ERROR',
}


def test_a_planned_config_trains_two_steps_on_a_folder(tmp_path, capsys):
    folder = make_folder(tmp_path / 'images', ('cat', 'dog'), count=12, size=20)
    out = tmp_path / 'plan' / 'mine.py'
    arguments = ['--data', str(folder), '--labeled', '--epochs', '1', '--out', str(out)]
    assert main(['plan', *arguments, '--k', '5']) == 0
    assert str(out) in capsys.readouterr().out
    config = Config.fromfile(out)
    assert config.train_dataloader.batch_size == 24  # all there are
    options = {**SMALL_NETWORK, 'train_dataloader.batch_size': 12}
    train(str(out), work_dir=str(tmp_path / 'run'), cfg_options=options)
    (log,) = (tmp_path / 'run').glob('*/vis_data/scalars.json')
    lines = log.read_text().splitlines()
    assert sum('"loss"' in line for line in lines) == 2
    assert 'gauge/class_divergence' in lines[-1]


def test_a_recipe_of_other_data_trains_on_a_folder(tmp_path, capsys):
    """Its pipeline opens no files, and its probe measures on its own data."""
    folder, out = make_folder(tmp_path / 'images', count=8, size=20), tmp_path / 'mine.py'
    facts = ['--data', str(folder), '--config', str(DIGITS), '--epochs', '1', '--out', str(out)]
    assert main(['plan', *facts]) == 0
    assert '! The number of classes is not known, 100 are assumed' in capsys.readouterr().out
    options = {'log_level': 'ERROR', 'train_dataloader.batch_size': 24}
    train(str(out), work_dir=str(tmp_path / 'run'), cfg_options=options)
    assert (tmp_path / 'run' / 'epoch_1.pth').is_file()


def test_the_plan_of_the_papers_hardware_prints_both_sides_of_k(tmp_path, capsys):
    out = str(tmp_path / 'plan.py')
    facts = ['--images', '1281167', '--classes', '1000', '--gpus', '8']
    assert main(['plan', *facts, '--out', out]) == 0
    printed = capsys.readouterr().out
    assert '8.1e-08' in printed  # rank 5, from above
    assert f'tools/dist_train.sh {out} 8' in printed


def test_memory_limits_the_batch_by_the_recipes_own_network(tmp_path, capsys):
    facts = ['--images', '1200', '--classes', '10', '--config', str(DIGITS)]
    assert main(['plan', *facts, '--memory', '0.80', '--out', str(tmp_path / 'plan.py')]) == 0
    (fits,) = re.findall(
        r'^0.8 GB suffice for a batch of (\d+) images', capsys.readouterr().out, re.MULTILINE
    )
    assert Config.fromfile(tmp_path / 'plan.py').train_dataloader.batch_size == int(fits) < 32


def test_missing_facts_are_asked_for_and_an_existing_file_is_not_overwritten(tmp_path, capsys):
    out = tmp_path / 'plan.py'
    out.write_text('mine')
    for arguments, message in (
        ('', 'number of images is missing'),
        ('--images 100 --classes 5 --config nowhere.py', 'nowhere.py does not'),
        ('--images 1000 --classes 10', 'exists'),
    ):
        assert main(['plan', *arguments.split(), '--out', str(out)]) == 2
        assert message in capsys.readouterr().err
    assert out.read_text() == 'mine'
    assert main(['plan', '--config', 'nowhere.py']) == 2
    assert 'nowhere.py does not exist' in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_gets_no_traceback(tmp_path):
    facts = ['--images', '1000', '--classes', '10', '--out', str(tmp_path / 'plan.py')]
    command = [sys.executable, '-m', 'ttl_mm', 'plan', *facts]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b''
    assert process.returncode == 141  # as of a process that SIGPIPE ends
