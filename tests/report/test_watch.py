import os
import time

from tests.helpers.work_dirs import EPOCH, write_start
from ttl_mm.report.watch import follow


def test_the_page_is_written_when_the_log_grows_and_once_more_at_the_end(tmp_path):
    run = write_start(tmp_path / 'run', '1', 1, EPOCH)
    log = run / '1/vis_data/scalars.json'
    written, waited = [], []

    def write(refresh):
        written.append(refresh)
        return tmp_path / 'index.html'

    def sleep(seconds):
        waited.append(seconds)
        if len(waited) == 2:  # after a look at a log that had not grown
            with log.open('a') as file:
                file.write('{"loss": 1.0, "lr": 0.1, "iter": 25, "epoch": 2, "step": 25}\n')
        elif len(waited) == 3:  # silent for an hour: no longer running
            os.utime(log, (time.time() - 3600,) * 2)

    assert len(list(follow([run], write, 7, sleep))) == 3
    assert written == [7, 7, 0]
    assert waited == [7, 7, 7]


def test_a_run_that_has_not_logged_yet_is_waited_for(tmp_path):
    folder, waited = tmp_path / 'run/1/vis_data', []
    folder.mkdir(parents=True)

    def sleep(seconds):
        waited.append(seconds)
        if len(waited) == 2:  # it logs, and is silent for an hour
            folder.rmdir()
            folder.parent.rmdir()
            write_start(tmp_path / 'run', '1', 1, EPOCH)
            os.utime(folder / 'scalars.json', (time.time() - 3600,) * 2)

    assert list(follow([tmp_path / 'run'], lambda refresh: refresh, 7, sleep)) == [0]
    assert waited == [7, 7]
    (folder / 'scalars.json').unlink()
    os.utime(folder, (time.time() - 3600,) * 2)  # begun long ago: it is not waited for
    assert list(follow([tmp_path / 'run'], lambda refresh: refresh, 7, sleep)) == [0]
    assert waited == [7, 7]
