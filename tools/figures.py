"""Figures of the pages and the commands that print them: ``make figures``.

    python tools/figures.py check            # every figure is what its command printed last
    python tools/figures.py renew            # run the quick commands again, then check
    python tools/figures.py renew NAME ...   # run the commands of these, however long they take

In a page, what a command printed stands between ``<!-- NAME: COMMAND -->`` and ``<!-- /NAME -->``.
The commands of PUBLISHERS write their places themselves, from the results beside them. What the
others printed is kept as ``docs/readings/NAME.json``, with date, commit and machine, and the page
has the same lines and says where they come from.
"""

import argparse
import datetime
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ttl_mm.errors import UserError  # noqa: E402

READINGS = ROOT / 'docs' / 'readings'
STAT = Path('/proc/stat')
PAGES = ('README.md', 'docs/*.md', 'configs/**/README.md', 'projects/*/README.md')
#: commands that write the places of their pages themselves, from committed results
PUBLISHERS = (
    'python projects/efficiency_study/study.py publish',
    'python projects/accuracy_per_hour/race.py publish',
    'python projects/judge_validation/validate.py publish',
    'python projects/judge_validation/forecasts.py',
)
MARK = re.compile(
    r'^<!-- (?P<name>[\w. -]+): (?P<command>[^\n]+) -->\n(?P<text>.*?)\n<!-- /(?P=name) -->$',
    re.DOTALL | re.MULTILINE,
)
COMMENT = re.compile(r'^<!-- (?!settings -->)/?[\w. -]+(?:: .*)? -->$', re.MULTILINE)
#: a number that looks measured: a decimal, or one with a unit
MEASURED = re.compile(
    r'(?<![\w.`/-])(?:\d[\d,]*\.\d+(?![\w.`])|\d[\d,.]*(?:x\b|\s?(?:%|m?s\b|[MG]i?B\b|images/s)))'
)


#: what a paragraph with such numbers, or one beside it, must name: a command, a page of figures, or
#: who published them
PUBLISHED = re.compile(r'\b[Pp]aper|\b[Pp]ublished|\bauthors')
SOURCE = re.compile(
    r'\b(python|torchrun|pytest|ttl|make) [\w-]|\w\.(py|sh)\b'
    r'|benchmarks\.md|projects/\w+/README\.md'
)


@dataclass(frozen=True)
class Mark:
    """A place of a page that a command writes."""

    page: Path
    name: str
    command: str
    text: str


@dataclass(frozen=True)
class Reading:
    """What a command printed, and when, where and at which state of the code."""

    command: str
    date: str  # YYYY-MM-DD
    commit: str
    machine: str
    lines: tuple[str, ...]
    quick: bool = False  # whether it is measured again by every `make figures`
    copied: bool = False  # whether the lines were taken from a page, not from the command itself
    needs: str = ''  # what is not in the repository and a repetition takes

    @property
    def text(self) -> str:
        """The lines, and the line that tells where they come from."""
        day = datetime.date.fromisoformat(self.date)
        origin = f'{day.day} {day:%B %Y}, commit {self.commit}, {self.machine}.'
        if self.copied:
            origin += ' Copied by hand.'
        if self.needs:
            origin += f' Cannot be measured from the repository alone: takes {self.needs}.'
        return '\n'.join([*self.lines, '', f'*{origin}*'])


def markdown(header: Sequence[str], rows: Sequence[Sequence]) -> str:
    """A table in markdown.

    >>> print(markdown(['a', 'b'], [[1, 2]]))
    | a | b |
    | --- | --- |
    | 1 | 2 |
    """
    lines = [header, ['---'] * len(header), *rows]
    return '\n'.join(f'| {" | ".join(map(str, line))} |' for line in lines)


def fill(page: Path, texts: Mapping[str, str]) -> None:
    """Put each text into its place on the page; what stands around it stays."""
    content = page.read_text()
    for name, text in texts.items():
        place = re.compile(
            rf'^(<!-- {re.escape(name)}: [^\n]+ -->\n).*?^(<!-- /{re.escape(name)} -->)$',
            re.DOTALL | re.MULTILINE,
        )
        content, count = place.subn(lambda m, text=text: f'{m[1]}{text}\n{m[2]}', content)
        if count != 1:
            raise UserError(
                f'{page} must have <!-- {name}: COMMAND --> and <!-- /{name} --> once each.'
            )
    page.write_text(content)


def pages(root: Path = ROOT) -> list[Path]:
    """The pages that may have figures."""
    return sorted({path for pattern in PAGES for path in root.glob(pattern)})


def marks(page: Path) -> list[Mark]:
    """The places of a page, in order."""
    found = MARK.finditer(page.read_text())
    return [Mark(page, m['name'], m['command'], m['text']) for m in found]


def reading_file(name: str, folder: Path = READINGS) -> Path:
    return folder / f'{name.replace(" ", "-")}.json'


def read(name: str, folder: Path = READINGS) -> Reading | None:
    """The last reading of this name."""
    path = reading_file(name, folder)
    if not path.is_file():
        return None
    content = json.loads(path.read_text())
    return Reading(**{**content, 'lines': tuple(content['lines'])})


def write(name: str, reading: Reading, folder: Path = READINGS) -> None:
    content = {key: value for key, value in asdict(reading).items() if value}
    folder.mkdir(exist_ok=True)
    text = json.dumps(content, indent=1, ensure_ascii=False)
    reading_file(name, folder).write_text(text + '\n')


def missing_files(command: str, root: Path = ROOT) -> list[str]:
    """Scripts, configs and tests that a command names and the repository lacks."""
    words = [word.partition('::')[0] for word in shlex.split(command)]
    modules = [words[i + 1] for i, word in enumerate(words[:-1]) if word == '-m']
    named = [w for w in words if re.match(r'(tools|projects|configs|tests)/', w)]
    named += [f'{m.replace(".", "/")}.py' for m in modules if m.startswith('tools.')]
    return [path for path in named if not (root / path).exists()]


def problems(root: Path = ROOT) -> Iterator[str]:
    """What is wrong with the figures of the pages, one sentence each."""
    folder = root / 'docs' / 'readings'
    used: dict[str, Path] = {}
    for page in pages(root):
        where = page.relative_to(root)
        found = marks(page)
        if len(COMMENT.findall(page.read_text())) != 2 * len(found):
            yield f'{where}: a mark of figures has no command, no partner or no line of its own'
        for mark in found:
            yield from (
                f'{where}: {mark.name}: there is no {path}'
                for path in missing_files(mark.command, root)
            )
            reading = read(mark.name, folder)
            if reading is None:
                if mark.command not in PUBLISHERS:
                    yield (
                        f'{where}: {mark.name}: nothing is known of these figures: run '
                        f'`python tools/figures.py renew {shlex.quote(mark.name)}`'
                    )
            elif mark.name in used:
                yield f'{where}: {mark.name}: {used[mark.name]} has this name too'
            elif (reading.command, reading.text) != (mark.command, mark.text):
                yield (
                    f'{where}: {mark.name}: not what '
                    f'{reading_file(mark.name, folder).relative_to(root)} says: run '
                    f'`python tools/figures.py write`, or measure again'
                )
            used[mark.name] = where
        yield from (f'{where}: {title}: figures without a command' for title in bare(page))
    names = {reading_file(name, folder) for name in used}
    for path in sorted(set(folder.glob('*.json')) - names):
        yield f'{path.relative_to(root)}: no page shows it: delete it'


def bare(page: Path) -> list[str]:
    """Sections with numbers that look measured and without a source.

    A table stands between marks, or its section says who published it; a paragraph names a command,
    or stands beside one that does or beside the marked figures that it is about. In a section with
    ``<!-- settings -->`` numbers are options, limits and sizes. Figures of recipes that are called
    measured are those of a metafile, which names the command.
    """
    found = []
    for section in re.split(r'\n(?=#)', page.read_text()):
        if '<!-- settings -->' in section:
            continue
        parts = re.split(r'\n{2,}', MARK.sub('\n\n<!-- -->\n\n', section).strip())
        published = bool(PUBLISHED.search(section))
        for i, part in enumerate(parts):
            plain = re.sub(r'```.*?```|`[^`\n]*`|\]\([^)]*\)', '', part, flags=re.DOTALL)
            rows = [r for r in plain.splitlines() if not re.match(r' {4}|.*\(measured\)', r)]
            if published or not any(map(MEASURED.search, rows)):
                continue
            near = '\n'.join(parts[max(0, i - 1) : i + 2])
            is_table = any(row.startswith('|') and MEASURED.search(row) for row in rows)
            if is_table or not (SOURCE.search(near) or '<!-- -->' in near):
                found.append(section.partition('\n')[0])
                break
    return found


def run(command: str) -> tuple[str, ...]:
    """The lines that a command prints."""
    tools = f'{Path(sys.executable).parent}{os.pathsep}{os.environ["PATH"]}'
    environment = {**os.environ, 'PATH': tools, 'PYTHONPATH': str(ROOT)}
    done = subprocess.run(
        command, shell=True, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    if done.returncode:
        raise UserError(f'{done.stdout}\n`{command}` ended with {done.returncode}.')
    lines = [line.rstrip() for line in done.stdout.strip().splitlines()]
    has_table = any(line.startswith('|') for line in lines)
    return tuple(lines if has_table else ['```text', *lines, '```'])


def machine(busy: float) -> str:
    """What the machine is, without its name; ``busy`` is the share of it that other work took."""
    import torch

    cores = len(os.sched_getaffinity(0))
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    beside = ', other work beside it' if busy > 0.05 else ''
    return f'{cores} CPU cores, {", ".join(gpus) or "no GPU"}{beside}'


def other_work() -> float:
    """Seconds that the processors worked for others than us and our children, as Linux counts."""
    if not STAT.exists():
        return 0.0
    user, nice, system, _, _, *interrupts = map(int, STAT.read_text().split()[1:9])
    ticks = user + nice + system + sum(interrupts)
    return ticks / os.sysconf('SC_CLK_TCK') - sum(os.times()[:4])


def take(command: str, old: Reading | None, commit: str) -> Reading:
    """Run a command for a new reading; if it says nothing new, the old one with its date stays."""
    began, before = time.monotonic(), other_work()
    lines = run(command)
    if old and not old.copied and (lines, command) == (old.lines, old.command):
        return old
    seconds = (time.monotonic() - began) * len(os.sched_getaffinity(0))
    where = machine((other_work() - before) / seconds)
    kept = {'quick': old.quick, 'needs': old.needs} if old else {}
    today = datetime.date.today().isoformat()
    return Reading(command, today, commit, where, lines, **kept)


def renew(names: Sequence[str]) -> None:
    """Run commands again and write what they print into readings and pages."""
    found = {mark.name: mark for page in pages() for mark in marks(page)}
    if unknown := set(names) - found.keys():
        raise UserError(f'no page has figures named {sorted(unknown)[0]!r}.')
    git = ['git', '-C', str(ROOT), 'rev-parse', '--short', 'HEAD']
    commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    done = set()
    for name in names or list(found):
        mark, old = found[name], read(name)
        if mark.command in PUBLISHERS:
            if mark.command not in done:
                print(f'{mark.command} ...', flush=True)
                run(mark.command)
                done.add(mark.command)
            continue
        if not names and (old is None or not old.quick):
            continue
        print(f'{mark.command} ...', flush=True)
        write(name, take(mark.command, old, commit))
    write_pages()


def write_pages() -> None:
    """Put the stored readings into their places."""
    for page in pages():
        found = {mark.name: read(mark.name) for mark in marks(page)}
        fill(page, {name: reading.text for name, reading in found.items() if reading})


def overview() -> Iterator[str]:
    """One line per reading that only its own command renews."""
    for page in pages():
        for mark in marks(page):
            reading = read(mark.name)
            if reading and not reading.quick:
                yield f'{mark.name:28} {reading.date}  {reading.commit}  {reading.machine}'


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('what', choices=['check', 'renew', 'write'])
    parser.add_argument('names', nargs='*', help='figures to renew; default: the quick ones')
    args = parser.parse_args()
    try:
        if args.what == 'renew':
            renew(args.names)
            print('stored readings, renewed by `python tools/figures.py renew NAME` alone:')
            print('\n'.join(overview()))
        elif args.what == 'write':
            write_pages()
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    found = list(problems())
    copied = [m.name for page in pages() for m in marks(page) if (r := read(m.name)) and r.copied]
    print('\n'.join(found) or f'figures: ok; copied by hand: {", ".join(copied) or "none"}')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
