"""Use what was trained: a result for every image that can be read."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from ttl_mm.errors import counted
from ttl_mm.finetuning.job import Say
from ttl_mm.planning.image_sources import FoundImages

Result = TypeVar('Result')


class Place(NamedTuple):
    """An image among those that were named."""

    name: str  # below the folder that all lie in
    path: Path
    stem: str  # of files that are written for it, which no other image has


def readable(
    found: FoundImages, results: Iterable[Result | None], say: Say
) -> Iterator[tuple[Place, Result]]:
    """Every image that has a result; those that cannot be read are named in the end."""
    names = list(found.names())
    broken = []
    for name, stem, result in zip(names, distinct_stems(names), results):
        if result is None:
            broken.append(name)
        else:
            yield Place(name, found.root / name, stem), result
    say_left_out(broken, say)


def say_left_out(broken: Sequence[str], say: Say) -> None:
    """Name images that cannot be read, if there are any."""
    if broken:
        images = counted(len(broken), 'image')
        say(f'left out {images} that cannot be read: {", ".join(broken[:3])}')


def distinct_stems(names: Sequence[str]) -> list[str]:
    """Names of files without folders and suffix; with the suffix, or a number, if two were equal.

    >>> distinct_stems(['a/1.jpg', 'a/2.jpg', 'a/2.png', 'a_2.jpg'])
    ['a_1', 'a_2.jpg', 'a_2.png', 'a_2.jpg (2)']
    """
    whole = [name.replace('/', '_') for name in names]
    stems = [Path(name).stem for name in whole]
    often, seen = Counter(stems), Counter[str]()
    chosen = [stem if often[stem] == 1 else name for name, stem in zip(whole, stems)]
    for i, name in enumerate(chosen):
        seen[name] += 1
        if seen[name] > 1:
            chosen[i] = f'{name} ({seen[name]})'
    return chosen
