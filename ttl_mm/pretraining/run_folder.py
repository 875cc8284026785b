"""The folder of a run: whose it is, and how far it got.

::

    OUT/plan/request.json   what was asked for; written last, so a run that has it can start
    OUT/plan/config.py      the config that is trained
    OUT/plan/*.txt          the images as they were found; later changes do not count
    OUT/*.pth, OUT/TIME/    checkpoints and logs of the runner
    OUT/backbone.pth        and report/index.html, in the end
"""

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path

from ttl_mm.errors import UserError
from ttl_mm.files.plain_json import read_json
from ttl_mm.planning.request import Request

NEW, STARTED, FINISHED = 'new', 'started', 'finished'
MARGIN = 200 * 2**20  # bytes beside the checkpoints: logs, report, backbone


class RunFolder:
    """``OUT`` of ``ttl train``."""

    def __init__(self, out: str | Path) -> None:
        self.out = Path(out)
        self.plan = self.out / 'plan'
        self.config = self.plan / 'config.py'
        self.request = self.plan / 'request.json'
        self.backbone = self.out / 'backbone.pth'
        self.page = self.out / 'report' / 'index.html'

    def state(self, request: Request) -> str:
        """NEW, STARTED or FINISHED.

        Raises:
            UserError: The folder is of another run, or of something else, or cannot be written.
        """
        if os.path.isfile(self.request):  # False where it may not be read
            self._check_same(request)
            return FINISHED if self.backbone.is_file() and self.page.is_file() else STARTED
        self._check_writable()
        if os.path.isdir(self.out) and (found := sorted(os.listdir(self.out))):
            raise UserError(
                f'{self.out} holds other files ({found[0]}), and nothing is overwritten: choose '
                'another folder with --out.'
            )
        return NEW

    def _check_same(self, request: Request) -> None:
        # a run of an earlier version does not know options that came later
        before = {**_identity(Request(())), **self._before()}
        now = _identity(request)
        different = [name for name in now if now[name] != before[name]]
        if different:
            name = different[0]
            raise UserError(
                f'{self.out} holds a run with {name} {_shown(before[name])}, and this line '
                f'asks for {_shown(now[name])}: choose another folder with --out, or repeat the '
                'line that started it to continue.'
            )

    def _check_writable(self) -> None:
        place = self._existing()
        if not place.is_dir():
            raise UserError(f'{place} is a file: choose another folder with --out.')
        if not os.access(place, os.W_OK | os.X_OK):
            raise UserError(f'you may not write into {place}: choose another folder with --out.')

    def _existing(self) -> Path:
        """The folder itself, or the nearest one above that exists."""
        paths = [self.out.absolute(), *self.out.absolute().parents]
        return next(path for path in paths if os.path.exists(path))

    def check_space(self, needed: int) -> None:
        """Refuse to start a run whose checkpoints do not fit on the disk."""
        free = shutil.disk_usage(self._existing()).free
        if free < needed + MARGIN:
            raise UserError(
                f'{self.out}: the checkpoints need {_gib(needed + MARGIN)} and {_gib(free)} are '
                'free: make room, or choose a folder on another disk with --out.'
            )

    def begin(self, request: Request, ranks: int) -> None:
        """Mark the folder as that of a run; its config must be there."""
        content = {**_identity(request), 'ranks': ranks}
        partial = self.request.with_suffix('.partial')
        partial.write_text(json.dumps(content, indent=2) + '\n')
        partial.replace(self.request)

    @property
    def ranks(self) -> int:
        """Processes that the run was started with."""
        return self._before()['ranks']

    def _before(self) -> dict:
        """What the run was started with.

        Raises:
            UserError: The file is damaged, or not ours.
        """
        try:
            before = read_json(self.request)
            if isinstance(before, dict) and type(before.get('ranks')) is int:
                return before
            reason = 'it describes no run'
        except (OSError, ValueError) as error:
            reason = str(error)
        raise UserError(f'{self.request} cannot be read ({reason}): choose another --out.')


def _identity(request: Request) -> dict:
    """What makes two requests the same run; files written at the end do not."""
    content = asdict(request)
    content.pop('export')
    return {**content, 'images': list(request.images)}


def _shown(value) -> str:
    return 'left open' if value is None else str(value)


def _gib(size: float) -> str:
    return f'{size / 2**30:.1f} GB'
