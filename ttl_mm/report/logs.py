"""Reading work dirs of mmengine. Nothing found in one is executed, the dumped config included."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from ttl_mm.errors import UserError
from ttl_mm.report.dumped_config import lookup, read_dumped
from ttl_mm.report.run import Run, is_training_line


def load_runs(folders: Sequence[str | Path]) -> list[Run]:
    """Read several work dirs; runs of the same name get the names of their parent folders."""
    unique = list(dict.fromkeys(Path(folder).resolve() for folder in folders))
    return [load_run(folder, name) for folder, name in zip(unique, distinct_names(unique))]


def load_run(folder: str | Path, name: str | None = None) -> Run:
    """Read every start of a run below its work dir; where they overlap, the later start wins."""
    folder = Path(folder).resolve()
    starts = [(log, records) for log in logs_of(folder) if (records := _read_records(log))]
    if not starts:
        raise UserError(
            f'{folder} holds no log: a work dir of a run has <timestamp>/vis_data/scalars.json'
        )
    merged: list[dict] = []
    for _, records in starts:
        resumed_at = next((r['iter'] for r in records if is_training_line(r)), records[0]['iter'])
        merged = [record for record in merged if record['iter'] < resumed_at] + records
    newest = starts[-1][0]
    config = read_dumped(newest.parent.parent)
    environment = _read_environment(newest.parent.parent)
    devices = re.search(r'GPU number: (\d+)', environment)
    return Run(
        name=name or folder.name,
        records=merged,
        starts=len(starts),
        modified=newest.stat().st_mtime,
        devices=int(devices[1]) if devices else 1,
        on_gpu='CUDA available: True' in environment,
        images_per_device=lookup(config, 'train_dataloader', 'batch_size'),
        max_epochs=lookup(config, 'train_cfg', 'max_epochs'),
        max_iterations=lookup(config, 'train_cfg', 'max_iters'),
        folder=folder,
        config=config,
    )


def logs_of(folder: Path) -> list[Path]:
    """Logs of all starts of a run, oldest first; those that hold nothing are left out."""
    logs = sorted(folder.glob('*/vis_data/scalars.json')) or [folder / 'vis_data' / 'scalars.json']
    return [log for log in logs if log.is_file() and log.stat().st_size]


def _read_records(log: Path) -> list[dict]:
    """Lines of one start; one without an iteration belongs to the training line before it."""
    records: list[dict] = []
    lines = log.read_text('utf-8', errors='replace').splitlines()
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            record.setdefault('iter', records[-1]['iter'] if records else 0)
        except (ValueError, AttributeError) as error:
            if number == len(lines):
                break  # still being written, or cut off by a kill
            raise UserError(
                f'line {number} of {log} is not a JSON object: {line[:40]!r}; delete that line'
            ) from error
        records.append(record)
    return records


def distinct_names(folders: Sequence[Path]) -> list[str]:
    """Shortest ends of the paths, of one length for each group of equal names, that differ."""
    names = [folder.name for folder in folders]
    depth = 1
    while len(set(names)) < len(names):
        depth += 1
        names = [
            '/'.join(folder.parts[-depth:]) if names.count(name) > 1 else name
            for folder, name in zip(folders, names)
        ]
    return names


def _read_environment(start: Path) -> str:
    """What mmengine writes about machine and processes at the head of its log; '' without one."""
    for log in sorted(start.glob('*.log')):
        with log.open(encoding='utf-8', errors='replace') as file:
            return file.read(20_000)
    return ''
