"""The entry that ships: its file is whole, and its figures come out again."""

import pytest
import torch

import ttl_mm
from tests.helpers.paths import ROOT
from ttl_mm.checkpoint.load import fetch_checkpoint as fetch
from ttl_mm.cli import main
from ttl_mm.datasets.digits import Digits
from ttl_mm.errors import UserError
from ttl_mm.evaluation.probe import measure_checkpoint as measure
from ttl_mm.zoo.manifest import MANIFEST, find_entry

NAME = 'ttl_r18_digits'


@pytest.fixture
def entry(monkeypatch, tmp_path):
    monkeypatch.setenv('TTL_ZOO_OFFLINE', '1')
    monkeypatch.setenv('TTL_ZOO_CACHE', str(tmp_path))
    return find_entry(NAME)


def test_measured_figures_are_reproduced(entry, capsys, tmp_path):
    """To one test image, since ties may fall differently on another processor."""
    assert main(['zoo', 'measure', NAME]) == 0
    printed = dict(line.rsplit(' ', 1) for line in capsys.readouterr().out.splitlines())
    within = 100 / len(Digits(split='test')) + 0.01
    assert {metric: float(value) for metric, value in printed.items()} == {
        result['metric']: pytest.approx(result['value'], abs=within) for result in entry.results
    }
    foreign = tmp_path / 'manifest.json'  # which may not name a config to run
    foreign.write_bytes(MANIFEST.read_bytes())
    assert main(['zoo', '--manifest', str(foreign), 'measure', NAME]) == 2
    with pytest.raises(UserError, match=r'has no default_hooks\.probe'):
        measure(fetch(entry), ROOT / 'configs/_base_/schedules/lars_200e.py')


def test_ships_small_and_is_used_in_place(entry, tmp_path):
    model = ttl_mm.get_model(NAME)
    with torch.no_grad():
        assert model(torch.zeros(2, 3, 16, 16))[-1].shape == (2, 128, 2, 2)
    assert fetch(entry) == entry.shipped
    assert entry.shipped.stat().st_size < 2_000_000
    assert not any(tmp_path.iterdir())
