"""A log that cannot be written does not end the run."""

import shutil

from mmengine.hooks import Hook
from mmengine.registry import HOOKS

from tests.helpers.toy_run import log_file
from ttl_mm.checkpoint.sealed import sealed_files

LOGGED = """
backends = [dict(type='LocalVisBackend'), dict(type='TensorboardVisBackend')]
visualizer = dict(type='Visualizer', vis_backends=backends)
log_level = 'INFO'
custom_hooks = [dict(type='SpoilHook', what={what!r})]
default_hooks.pop('curve')
"""


@HOOKS.register_module(force=True)
class SpoilHook(Hook):
    """After iteration 3, put a file in the place of the log folder, or remove the work dir."""

    priority = 'VERY_HIGH'

    def __init__(self, what: str) -> None:
        self.what = what

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        if runner.iter + 1 == 3:
            shutil.rmtree(getattr(runner, self.what))
            if self.what == 'log_dir':
                open(runner.log_dir, 'w').close()


def test_the_folder_of_the_log_is_gone(tmp_path, toy):
    assert toy(more=LOGGED.format(what='log_dir')) == [0]
    log = log_file(tmp_path / 'work').read_text()
    assert log.count('LocalVisBackend cannot be written (') == 1
    assert 'the run goes on without it' in log
    assert 'Traceback' not in log
    assert sealed_files(tmp_path / 'work')[0][1].iteration == 20


def test_the_work_dir_is_removed_and_made_again_by_the_next_save(tmp_path, toy):
    assert toy(more=LOGGED.format(what='work_dir')) == [0]
    assert 'Traceback' not in log_file(tmp_path / 'work').read_text()
    assert sealed_files(tmp_path / 'work')[0][1].iteration == 20
