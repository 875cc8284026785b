import json
import shutil

import pytest

from ttl_mm.errors import UserError
from ttl_mm.planning.train_plan import Request
from ttl_mm.pretraining.run_folder import RunFolder


def test_a_full_disk_is_known_before_the_run(tmp_path):
    folder = RunFolder(tmp_path / 'a' / 'b')
    folder.check_space(0)
    with pytest.raises(UserError, match='make room, or choose a folder on another disk'):
        folder.check_space(shutil.disk_usage(tmp_path).free)
    assert not (tmp_path / 'a').exists()


def test_a_damaged_request_is_one_sentence(tmp_path):
    folder = RunFolder(tmp_path)
    folder.plan.mkdir()
    for content in ('', '[1]', '{"ranks": "2"}', '[' * 1000, json.dumps({'ranks': None})):
        folder.request.write_text(content)
        with pytest.raises(UserError, match=r'cannot be read .*: choose another --out'):
            folder.state(Request(['photos']))
