"""The console of real runs, in a file and in a pseudo-terminal."""

import os
import re
import signal
import sys
import threading

import pytest

from tests.helpers.toy_run import STOP, log_file
from ttl_mm.engine.guards.collapse import health_of

MORE = "log_level = 'INFO'\ndefault_hooks.update(logger=dict(interval=5))\n"
CONSOLE = {'plain': False}  # as for every user; other tests of runs read the whole log


class Terminal:
    """A pseudo-terminal of 80 columns; ``enter`` moves a child process into it."""

    def __init__(self) -> None:
        self.master, self.slave = os.openpty()
        os.set_blocking(self.master, True)
        self.read = b''
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        try:
            while part := os.read(self.master, 4096):
                self.read += part
        except OSError:  # the other end is closed
            pass

    def enter(self) -> None:
        os.environ.update(TERM='xterm', COLUMNS='80', LINES='40')
        os.dup2(self.slave, 1)
        os.dup2(self.slave, 2)
        sys.stdout = sys.stderr = os.fdopen(self.slave, 'w', buffering=1)

    def text(self) -> str:
        os.close(self.slave)
        self.reader.join(10)
        return self.read.decode()


def test_without_a_terminal_one_line_per_interval(tmp_path, toy):
    assert toy(more=MORE, options=CONSOLE) == [0]
    lines = log_file(tmp_path / 'work').read_text().splitlines()
    assert lines[0] == 'config: 22 images, 4 epochs, 20 steps of 4 images, on the CPU, threads: 1.'
    (log,) = (tmp_path / 'work').glob('*/*.log')
    assert str(log.parent) in lines[1]
    starts = [line.partition('  loss')[0] for line in lines[2:6]]
    assert starts == [f'{25 * i:3}%  epoch {i}/4  step {5 * i}/20' for i in range(1, 5)]
    assert lines[6].startswith('Finished in ')
    assert lines[7] == f'Weights: {tmp_path}/work/epoch_4.pth'
    assert lines[8:] == [f'Next: ttl report {tmp_path}/work']  # the toy is no self-supervisor
    assert 'System environment' in log.read_text()  # what the console does not show
    assert (tmp_path / 'work/config.py').is_file()


def test_a_run_by_steps_tells_its_epochs_and_its_title(tmp_path, toy):
    title = MORE + "default_hooks['console'] = dict(type='ttl_mm.ConsoleHook', title='photos')\n"
    loop = "dict(type='IterBasedTrainLoop', max_iters=7)"
    assert toy(loop=loop, more=title, options=CONSOLE) == [0]
    lines = log_file(tmp_path / 'work').read_text().splitlines()
    assert lines[0].startswith('photos: 22 images, 7 steps of 4 images, ')
    starts = [line.partition('  loss')[0] for line in lines[2:4]]
    assert starts == [' 71%  epoch 1/2  step 5/7', '100%  epoch 2/2  step 7/7']


def test_in_a_terminal_a_live_display(tmp_path, toy):
    terminal = Terminal()
    assert toy(more=MORE, prepare=terminal.enter, options=CONSOLE) == [0]
    text = terminal.text()
    for word in ('epoch 4/4', '100%', 'loss', 'images/s', 'bad images', 'epoch_4.pth', '━'):
        assert word in text
    assert text.index('Finished in') > text.rindex('bad images')
    assert text.rindex('\x1b[?25h') > text.rindex('\x1b[?25l')  # the cursor is back
    assert len(text.splitlines()) < 60


def test_an_interrupted_run_gives_the_terminal_back(tmp_path, toy):
    terminal = Terminal()
    stop = STOP.format(f'8, number={int(signal.SIGINT)}')
    assert toy(more=MORE + stop, prepare=terminal.enter, options=CONSOLE) == [130]
    text = terminal.text()
    # the display is erased before the line, and drawn again below it
    assert re.search(r'\x1b\[2K[^\n]*saving after this step; Ctrl-C once more ends at once', text)
    assert text.rindex('\x1b[?25h') > text.rindex('\x1b[?25l')
    assert '--resume' in text.splitlines()[-1]
    again = Terminal()
    assert toy(more=MORE, prepare=again.enter, options=CONSOLE) == [0]
    text = again.text()
    assert 'Continuing after step 8.' in text
    assert 'checkpoint  iter_8.pth' in text
    assert 'none yet' not in text


def test_plain_is_the_log_of_mmengine(tmp_path, toy):
    assert toy(more=MORE, options={'plain': True}) == [0]
    text = log_file(tmp_path / 'work').read_text()
    assert 'System environment' in text
    assert 'Finished in' not in text


@pytest.mark.parametrize(
    ('spread', 'rank', 'highest', 'word'),
    [
        (0.8, 34, 40, 'healthy'),
        (0.8, 12, 40, 'losing dimensions'),
        (0.8, 3, 40, 'collapsed'),
        (0.01, 34, 40, 'collapsed'),
    ],
)
def test_health_in_plain_words(spread, rank, highest, word):
    assert health_of(spread, rank, highest, images=64, dimensions=64) == word
