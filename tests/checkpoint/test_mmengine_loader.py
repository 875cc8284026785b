"""mmengine's own loading once ttl_mm.registry is imported."""

import pytest
import torch
from mmengine.runner import CheckpointLoader

from tests.helpers.checkpoints import RunsCode
from ttl_mm.errors import UserError


def test_files_are_read_as_data_and_addresses_that_nothing_checks_refused(tmp_path, monkeypatch):
    monkeypatch.setenv('HOME', str(tmp_path))
    torch.save({'state_dict': {'a': torch.ones(2)}}, tmp_path / 'good.pth')
    assert CheckpointLoader.load_checkpoint('~/good.pth')['state_dict']['a'].tolist() == [1, 1]
    torch.save({'meta': RunsCode(tmp_path / 'ran')}, tmp_path / 'evil.pth')
    with pytest.raises(UserError, match='refused'):
        CheckpointLoader.load_checkpoint(str(tmp_path / 'evil.pth'))
    assert not (tmp_path / 'ran').exists()
    for scheme in ('http', 'https', 'torchvision', 'open-mmlab', 'mmcls', 'pavi', 's3', 'a:s3'):
        with pytest.raises(UserError, match='nothing would check what arrives'):
            CheckpointLoader.load_checkpoint(f'{scheme}://resnet50')
