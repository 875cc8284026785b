"""Hundreds of mistakes over all commands: the documented code, one line, no trace left.

Every option that takes a value is tried with values that cannot be right for it; beside these
stand mistakes that only show when the command begins its work.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import torch

import ttl_mm.engine
import ttl_mm.export  # noqa: F401
from tests.helpers.forked import Ended, in_fork
from tests.helpers.images import write_images
from tests.helpers.odd_files import make_socket
from tests.helpers.parsers import leaves
from tests.helpers.paths import ROOT
from ttl_mm import cli

# 600 MB in all, of which a process has 480 when it has imported everything
SECONDS, MEGABYTES = 3, 600 - 480
# every fourth row in the quick suite, every one in the long one
SPLIT = [4, pytest.param(1, marks=pytest.mark.faults)]
# text that may be anything
FREE = {
    '--about', '--backbone', '--cfg-options', '--license', '--name', '--prefix', '--ranks',
    '--title', 'images', 'name', 'names',
}  # fmt: skip
WRONG = ['', 'none', '-1', 'nan', 'x' * 300, '/dev/zero', 'fifo', 'socket', 'dangling', 'file/x']


@pytest.fixture(scope='module')
def sandbox(tmp_path_factory) -> Path:
    """A folder with a few good files, and some that nobody should read or replace."""
    folder = tmp_path_factory.mktemp('sandbox')
    (folder / 'photos').mkdir()
    for name in ('a', 'b'):
        write_images(folder / 'photos' / name, 8, 16, 16)
    (folder / 'empty').mkdir()
    (folder / 'file').write_text('some text\n')
    (folder / 'blank').write_bytes(b'')
    (folder / 'config.py').write_text('train_cfg = None\n')
    (folder / 'broken.py').write_text('train_cfg = dict(\n')
    (folder / 'typo.py').write_text('optim_wraper = dict()\n')
    (folder / 'raises.py').write_text('1 / 0\n')
    (folder / 'config.yaml').write_text('model: 1\n')
    torch.save({'state_dict': {'conv.weight': torch.ones(2)}}, folder / 'other.pth')
    content = (folder / 'other.pth').read_bytes()
    (folder / 'cut.pth').write_bytes(content[: len(content) // 2])
    (folder / 'list.json').write_text('[1, 2]')
    (folder / 'list.npy').write_text('not ours')
    (folder / 'taken').mkdir()
    (folder / 'taken' / 'thesis.txt').write_text('not ours')
    (folder / 'shards').mkdir()
    for name in ('damaged.npy', 'damaged.csv', 'damaged.safetensors'):
        (folder / name).write_bytes(b'\x93NUMPY damaged' * 9)
    for name in ('damaged.tar', 'damaged.zip', 'damaged.parquet'):
        (folder / 'shards' / name).write_bytes(b'PK\3\4 damaged' * 99)
    make_socket(folder / 'socket')
    os.mkfifo(folder / 'fifo')
    (folder / 'dangling').symlink_to('gone')
    return folder


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file with its size and time."""
    return {str(p): (p.lstat().st_size, p.lstat().st_mtime_ns) for p in folder.rglob('*')}


def is_wrong(action: argparse.Action, value: str) -> bool:
    """Whether the option itself refuses the value; for paths that depends on the folder."""
    if action.choices is not None:
        return value not in action.choices
    try:
        action.type(value)
        return False
    except (argparse.ArgumentTypeError, ValueError):
        return True


def with_values(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [
        action
        for action in parser._actions
        if action.nargs != 0 and action.dest != 'help' and action.help is not argparse.SUPPRESS
    ]


def names_of(action: argparse.Action) -> set[str]:
    return {*action.option_strings} or {action.dest}


PARSERS = {parser.prog: parser for parser in leaves(cli.build_parser())}


def check(ended: Ended, sandbox: Path, before: dict, row: object) -> None:
    assert ended.code == 2, (row, ended)
    lines = ended.err.splitlines()
    assert len(lines) == 1, (row, ended.err)
    assert len(lines[0]) < 1500, row
    assert ended.seconds < SECONDS, (row, ended)
    assert ended.megabytes < MEGABYTES, (row, ended)
    after = tree(sandbox)
    assert after == before, (row, set(after) ^ set(before))


def test_every_option_with_a_value_checks_it():
    for prog, parser in PARSERS.items():
        for action in with_values(parser):
            free = names_of(action) & FREE
            assert free or action.choices or action.type, f'{prog} {names_of(action)}'


def rows_of(parser: argparse.ArgumentParser) -> Iterator[list[str]]:
    """Every option with values that it refuses; an argument comes without its option."""
    command = parser.prog.split()[1:]
    for action in with_values(parser):
        if names_of(action) & FREE:
            continue
        wrong = [value for value in WRONG if is_wrong(action, value)]
        for value in wrong[len(action.dest) % 3 :: 3]:  # a third of them: a minute for them all
            option = [f'{action.option_strings[0]}={value}'] if action.option_strings else []
            yield [*command, *(option or ['--', value])]
    yield [*command, '--no-such-option']
    yield [*command, *['too-many'] * 40, '--no-such-option=1']


def check_all(rows: list[list[str]], run, sandbox: Path) -> None:
    before = tree(sandbox)
    for row in rows:
        check(in_fork(lambda row=row: run(row), sandbox), sandbox, before, row)


@pytest.mark.parametrize('every', SPLIT)
def test_values_that_no_option_takes(sandbox, monkeypatch, every):
    monkeypatch.chdir(sandbox)
    rows = [row for parser in PARSERS.values() for row in rows_of(parser)]
    assert len(rows) >= 300
    check_all(rows[:: every**2], cli.main, sandbox)


# what only shows when a command looks at what it was given
DEEPER = [
    line.split()
    for line in """
    export file --to timm
    export blank --to timm
    export cut.pth --to timm
    export other.pth --to timm
    export other.pth --to timm --out other.pth
    export other.pth --to timm --out config.py
    export ttl_mm://no-such-name --to timm
    export http://127.0.0.1:9/x.pth --to timm
    import file
    import blank
    import cut.pth
    import other.pth --out other.pth --overwrite
    import other.pth --out file
    import other.pth --prefix nothing.
    plan
    plan --images 10 --out file
    plan --images 10 --config broken.py
    plan --images 10 --config config.py
    plan --images 10 --config file
    plan --data empty
    plan --data photos --labeled --k 1000
    views
    views photos
    views --data empty
    views --data photos --out file
    views --data photos --out sheet.unknown
    views --config config.py
    views --config broken.py
    views --config typo.py
    views --config raises.py
    views --config config.yaml
    views --config file
    analyze file
    analyze other.pth
    analyze other.pth --data empty
    analyze other.pth --data photos --ranks x
    analyze other.pth --data photos --ranks 5..2
    eval file
    eval other.pth
    eval other.pth --data photos
    eval cut.pth --data photos
    eval other.pth --data empty
    eval file file
    eval other.pth other.pth other.pth
    eval empty
    eval photos
    report empty
    report file
    report photos
    report list.json
    zoo --manifest file list
    zoo --manifest list.json list
    zoo get no-such-name
    zoo verify no-such-name
    zoo measure no-such-name
    zoo publish other.pth --name BAD/NAME
    zoo publish other.pth --name good
    zoo publish file --name good
    zoo publish cut.pth --name good
    detect check broken.py
    detect check file
    reid eval other.pth
    reid eval file --data photos
    reid eval other.pth --data photos
    reid eval other.pth --queries 1
    reid check photos
    reid check empty
    reid make photos
    reid check photos --files x
    reid eval other.pth --data photos --out file
    backbones no-such-network
    finetune photos
    finetune photos --weights cut.pth
    finetune photos --weights other.pth
    finetune empty --weights other.pth
    finetune photos --weights other.pth --fraction 0
    finetune photos --weights other.pth --out taken
    predict photos --weights cut.pth
    predict photos --weights other.pth
    predict empty --weights other.pth
    segment train photos --weights other.pth
    segment train empty --weights cut.pth
    segment run photos --weights other.pth
    segment run empty --weights other.pth
    detect train photos --weights other.pth
    detect train empty --weights cut.pth
    detect run photos --weights other.pth
    detect run empty --weights other.pth
    compare other.pth
    compare other.pth --data photos
    compare random --data photos
    compare cut.pth other.pth --data photos
    compare other.pth other.pth --data photos
    duplicates photos --threshold 0.9
    compare other.pth other.pth --data empty
    compare other.pth other.pth --data photos --seen empty
    demo --epochs 0
    doctor --train 5
    duplicates empty
    duplicates file
    duplicates blank
    duplicates photos --against empty
    duplicates photos --weights cut.pth
    duplicates photos --weights other.pth
    duplicates photos --config config.py
    duplicates photos --out taken
    embed photos
    embed empty --weights other.pth
    embed photos --weights cut.pth
    embed photos --weights other.pth
    embed photos --weights other.pth --out x.unknown
    embed photos --weights other.pth --out list.npy
    embed file --weights other.pth
    forecast photos
    forecast empty
    map photos
    map file
    map blank
    map damaged.npy
    map damaged.csv
    map damaged.safetensors
    map photos --weights cut.pth
    map photos --weights other.pth
    map empty --weights other.pth
    map damaged.npy --out taken
    search
    search file --in file
    search photos/a/0.jpg --in file
    search photos/a/0.jpg --in damaged.npy
    search photos/a/0.jpg --in damaged.csv
    search photos/a/0.jpg --in damaged.safetensors
    select photos
    select file --number 2
    select damaged.npy --number 2
    select damaged.csv --number 2
    select damaged.safetensors --number 2
    select photos --number 2 --weights cut.pth
    select photos --number 2 --weights other.pth
    select damaged.npy --number 2 --out file
    shard empty
    shard file
    shard photos --out shards
    shard photos --size 1KB
    train
    train none
    train empty
    train fifo
    train file
    train blank
    train photos --backbone no-such-network
    train photos --init cut.pth
    train photos --init other.pth
    train photos --labels empty
    train photos --out taken
    train photos --config-out file
    train photos --size 1
    train photos --hours 1 --epochs 3
    views --data shards/damaged.tar
    plan --data shards/damaged.zip
    train shards/damaged.tar
    train shards/damaged.zip
    train shards/damaged.parquet
    eval damaged.safetensors
    eval damaged.safetensors damaged.safetensors
    analyze damaged.safetensors
    no-such-command
    check_detection
    """.strip().splitlines()
]


def test_every_command_has_mistakes_that_show_at_work():
    assert {prog.split()[1] for prog in PARSERS} <= {row[0] for row in DEEPER}


@pytest.mark.parametrize('every', SPLIT)
def test_mistakes_that_show_at_work(sandbox, every):
    check_all(DEEPER[::every], cli.main, sandbox)


TOOLS = [
    line.split()
    for line in """
    train
    train none.py
    train .
    train fifo
    train file
    train broken.py
    train typo.py
    train raises.py
    train config.yaml
    train config.py
    train config.py --resume=
    train config.py --work-dir=
    train config.py --work-dir=file
    train config.py --work-dir=file/x
    train config.py --launcher=none-such
    train config.py --tracker=none-such
    train config.py --cfg-options a
    train config.py --cfg-options =1
    train config.py --cfg-options a=[b,c]
    train config.py --cfg-options a.b=1
    train config.py --amp=none-such
    train config.py --resum
    test
    test config.py
    test config.py none.pth
    test none.py other.pth
    test config.py other.pth
    test broken.py other.pth
    test config.py fifo
    test config.py other.pth --work-dir=file
    test config.py other.pth --cfg-options a
    """.strip().splitlines()
]


def run_tool(name: str, *arguments: str) -> int:
    """What ``python tools/NAME.py ...`` does."""
    from tools import launcher_options

    sys.argv = [f'{name}.py', *arguments]
    job = {'train': 'train', 'test': 'run_test'}[name]
    return launcher_options.run(job, import_module(f'tools.{name}').parse_args())


@pytest.mark.parametrize('every', SPLIT)
def test_mistakes_of_train_and_test(sandbox, every):
    check_all(TOOLS[::every], lambda row: run_tool(*row), sandbox)


@pytest.mark.faults
@pytest.mark.parametrize(
    'line', ['detect check broken.py', 'map photos --weights cut.pth', 'zoo get no-such-name']
)
def test_a_new_process_needs_no_more_memory_than_a_fork_was_allowed(sandbox, line):
    """With its imports, which the forks above have from their parent."""
    before = tree(sandbox)
    process = subprocess.Popen(
        [sys.executable, '-m', 'ttl_mm', *line.split()],
        cwd=sandbox, env={**os.environ, 'PYTHONPATH': str(ROOT)}, stderr=subprocess.PIPE,
    )  # fmt: skip
    lines = process.stderr.read().splitlines()
    process.stderr.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert (process.returncode, len(lines)) == (2, 1), lines
    assert usage.ru_maxrss < 600 * 1024
    assert tree(sandbox) == before


@pytest.mark.skipif(os.getuid() != 0, reason='only root can become somebody else')
def test_what_belongs_to_others(sandbox, tmp_path):
    """As a user who may neither read the files nor write into the folder."""
    folder = tmp_path / 'sandbox'
    shutil.copytree(sandbox / 'photos', folder / 'photos')
    shutil.copy(sandbox / 'other.pth', folder)
    for path in (folder / 'other.pth', folder / 'photos' / 'a'):
        path.chmod(0o000)
    folder.chmod(0o755)

    def as_nobody(row):
        os.setgid(65534)
        os.setuid(65534)
        return cli.main(row)

    for line in (
        'export other.pth --to timm',
        'eval other.pth --data photos',
        'plan --images 100 --classes 3 --out new.py',
        'views --data photos --out new.png',
        'reid make new',
    ):
        ended = in_fork(lambda line=line: as_nobody(line.split()), folder)
        assert ended.code == 2, (line, ended)
        assert len(ended.err.splitlines()) == 1, (line, ended.err)
