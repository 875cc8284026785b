"""What every command does that trains from given weights: lines and folders of tiny jobs."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from tests.helpers.checkpoints import assert_bit_equal, random_network
from tests.helpers.toy_run import SignalHook
from ttl_mm.checkpoint.load import tensors_of
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.cli import main
from ttl_mm.config import read_config
from ttl_mm.engine.runner import processes
from ttl_mm.engine.runner.launch import train
from ttl_mm.finetuning import job


def write_weights(folder: Path) -> Path:
    """A narrow ResNet-18."""
    path = folder / 'backbone.pth'
    torch.save({'state_dict': random_network(0).state_dict()}, path)
    return path


def plans(folder: Path, weights: Path) -> list[dict]:
    """The configs of both starts, of which the first alone names the weights; without that."""
    ours, theirs = (
        read_config(folder / f'runs/{start}_seed0/plan/config.py').to_dict()
        for start in ('pre-trained', 'random')
    )
    assert ours['model']['backbone'].pop('init_cfg')['checkpoint'] == str(weights)
    assert theirs['model']['backbone'].pop('init_cfg', None) is None
    return [ours, theirs]


def assert_nothing_again(line: Sequence[str], capsys) -> str:
    """The same line trains nothing, and prints what is returned; another is refused."""
    results = list(Path(line[-1]).glob('runs/*/result.json'))
    before = [path.stat().st_mtime_ns for path in results]
    assert len(results) == 2
    assert main([*line]) == 0
    assert [path.stat().st_mtime_ns for path in results] == before
    printed = capsys.readouterr().out
    assert 'Run ' not in printed
    assert main([*line, '--rate', '0.1']) == 2
    assert 'holds a job with rate left open, and this line asks for 0.1' in capsys.readouterr().err
    return printed


def assert_continues(line: Sequence[str], out: Path, stop_at: int, file: str, capsys) -> str:
    """A job without a baseline that is interrupted ends with the weights of ``line``'s own job.

    Returns what the line printed that continued it.
    """
    again = [*line[:-1], str(out), '--no-baseline']
    stop = {'+custom_hooks': [{'type': SignalHook.__name__, 'at': stop_at}]}

    def train_and_stop(config, work_dir, **options):
        train(config, work_dir, cfg_options=stop, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, 'train', train_and_stop)
        assert main(again) == 75
    assert 'is not finished. The same line continues it.' in capsys.readouterr().err
    assert not (out / file).exists()
    assert main(again) == 0
    found, whole = (tensors_of(read_checkpoint(folder / file)) for folder in (out, Path(line[-1])))
    assert_bit_equal(found, whole)
    return capsys.readouterr().out


def assert_config_out(line: Sequence[str], path: Path, capsys) -> None:
    """``--config-out`` writes the config that ``line`` has trained by, and replaces no file."""
    asked = [*line[:-2], '--config-out', str(path)]
    assert main(asked) == 0
    assert f'Start: python tools/train.py {path}' in capsys.readouterr().out
    plan = Path(line[-1]) / 'runs/pre-trained_seed0/plan'
    mine = path.read_text().replace(str(path.with_name(f'{path.stem}_lists')), 'PLAN')
    assert mine == (plan / 'config.py').read_text().replace(str(plan), 'PLAN')
    assert main(asked) == 2
    assert 'exists: name another file with --config-out' in capsys.readouterr().err


def assert_keeps_its_images(line: Sequence[str], change: Callable[[], object], capsys) -> None:
    """A job that was interrupted is not continued after the data have changed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, 'train_in_processes', lambda config, out: 75)
        assert main([*line]) == 75
    change()
    assert main([*line]) == 2
    assert 'holds a job with images ' in capsys.readouterr().err
