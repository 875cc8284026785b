"""What ``ttl compare`` does: features of every contestant, the comparison, and its page."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ttl_mm.errors import UserError
from ttl_mm.evaluation.data import open_splits
from ttl_mm.evaluation.feature_file import Features, read_features
from ttl_mm.evaluation.model import load_model
from ttl_mm.evaluation.run import extract_splits
from ttl_mm.explore.comparison import PROTOCOLS, accuracy, correct_images, lead, verdict
from ttl_mm.explore.duplicates import exact_copies
from ttl_mm.planning.image_sources import FoundImages
from ttl_mm.report import canvas, load_run
from ttl_mm.report.axes import duration
from ttl_mm.report.logs import distinct_names
from ttl_mm.report.page import Picture, Section, Table, write_page

RANDOM = 'random'  # the word for an untrained network of the first contestant's kind
Splits = tuple[Features, Features]


def compare(
    sources: Sequence[str], data: str, out: Path, protocols: Sequence[str], seeds: int,
    pretrained_on: FoundImages | None, options: dict[str, Any],
) -> Iterator[str]:  # fmt: skip
    """Judge all contestants on one labeled set; yield lines to print, the verdict first.

    Args:
        sources: two checkpoints or more in any layout; the word 'random' is an untrained network.
        data: what :func:`ttl_mm.evaluation.data.open_splits` takes.
        out: folder for features, ``comparison.json`` and the page.
        protocols: of :data:`ttl_mm.explore.comparison.PROTOCOLS`.
        seeds: draws of training images, and untrained networks.
        pretrained_on: the images of pre-training, to see whether test images are among them.
        options: of :func:`ttl_mm.evaluation.run.extract_splits`.
    """
    checkpoints = [source for source in sources if source != RANDOM]
    if len(sources) < 2 or not checkpoints:
        raise UserError(f'nothing to compare in {list(sources)}: name a checkpoint and another.')
    paths = [Path(source.replace('://', '/')) for source in checkpoints]
    named: dict[str, str] = dict(zip(distinct_names(paths), checkpoints))
    splits: dict[str, list[Splits]] = {
        name: [_features(source, data, out / f'{name}_features', options)]
        for name, source in named.items()
    }
    if RANDOM in sources:
        splits[RANDOM] = [
            _features(_untrained(checkpoints[0], seed, out, options), data,
                      out / f'{RANDOM}{seed}_features', options)
            for seed in range(seeds)
        ]  # fmt: skip
    correct = {
        protocol: {name: _judge(found, protocol, seeds) for name, found in splits.items()}
        for protocol in protocols
    }
    first, *others = splits
    verdicts = [
        verdict(first, other, {p: lead(correct[p][first], correct[p][other]) for p in protocols})
        for other in others
    ]
    yield from verdicts
    leaks = _leak_sentence(data, pretrained_on, options.get('size') or 224)
    yield leaks
    table = _accuracy_table(correct)
    _write_json(correct, verdicts, leaks, out)
    page = write_page(
        f'Is {first} better?', ' '.join(verdicts),
        [_accuracy_section(correct, table, seeds), _cost_section(named), Section('Leaks', leaks)],
        out, command='ttl compare',
    )  # fmt: skip
    yield str(page.resolve())


def _features(source: str, data: str, folder: Path, options: dict[str, Any]) -> Splits:
    train, test = extract_splits(source, data, folder, **options)
    return read_features(train), read_features(test)


def _untrained(like: str, seed: int, out: Path, options: dict[str, Any]) -> str:
    """A file with the network of a checkpoint, its weights drawn again as torch draws them."""
    backbone, _, _ = load_model(like, options.get('config'), 'cpu')
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module: Any
        for module in backbone.modules():
            if reset := getattr(module, 'reset_parameters', None):
                reset()
    path = out / f'{RANDOM}{seed}.pth'
    torch.save({'state_dict': backbone.state_dict()}, path)
    return str(path)


def _judge(splits: Sequence[Splits], protocol: str, seeds: int) -> np.ndarray:
    """(seeds, Q): each draw with the network itself, or with the untrained network of that seed."""
    if len(splits) == 1:
        return correct_images(*splits[0], protocol, seeds)
    rows = [correct_images(*found, protocol, seeds)[seed] for seed, found in enumerate(splits)]
    return np.stack(rows)


def _leak_sentence(data: str, pretrained_on: FoundImages | None, size: int) -> str:
    if pretrained_on is None:
        return 'Whether test images were pre-trained on was not checked: name them with --seen.'
    test = open_splits(data, size)[0]['test']
    files = [test.get_data_info(i)['img_path'] for i in range(len(test))]  # type: ignore
    seen = [str(pretrained_on.root / name) for name in pretrained_on.names()]
    groups = exact_copies(files + seen)
    leaked = {i for g in groups if g[-1] >= len(files) for i in g if i < len(files)}
    if not leaked:
        return f'None of the {len(files):,} test images was pre-trained on (compared byte by byte).'
    return (
        f'{len(leaked)} of the {len(files):,} test images were pre-trained on, such as '
        f'{files[min(leaked)]}: the comparison favors who has seen them.'
    )


def _accuracy_table(correct: dict[str, dict[str, np.ndarray]]) -> Table:
    names = list(next(iter(correct.values())))
    rows = []
    for name in names:
        cells = []
        for found in correct.values():
            value = accuracy(found[name])
            cells.append(f'{value.mean:.1f} ({value.low:.1f} to {value.high:.1f})')
        rows.append([name, *cells])
    return Table(['top-1 in %', *(PROTOCOLS[protocol].title for protocol in correct)], rows)


def _accuracy_section(correct, table: Table, seeds: int) -> Section:
    text = (
        f'Means over {seeds} draws of training images, with 95 % confidence intervals over draws '
        'and test images. All contestants have the same draws, images and classifiers.'
    )
    with canvas() as (figure, axes):
        for place, found in enumerate(correct.values()):
            for shift, name in enumerate(found):
                value = accuracy(found[name])
                x = place + (shift - (len(found) - 1) / 2) * 0.15
                error = [[value.mean - value.low], [value.high - value.mean]]
                axes.errorbar(x, value.mean, yerr=error, fmt='o', color=f'C{shift}', capsize=3,
                              label=name if not place else None)  # fmt: skip
        axes.set_xticks(range(len(correct)), [PROTOCOLS[protocol].title for protocol in correct])
        axes.set_ylabel('top-1 in %')
        axes.legend()
    picture = Picture('accuracy', figure, 'Accuracy with its confidence interval.')
    return Section('Accuracy', text, tables=[table], pictures=[picture])


def _cost_section(named: dict[str, str]) -> Section:
    """Hours of training, where the log of the run lies beside the checkpoint."""
    rows = []
    for name, source in named.items():
        try:
            run = load_run(Path(source).parent)
            cost = duration(run.cost(run.last_iteration), run.unit)
        except UserError:
            cost = 'unknown: no log beside the file'
        rows.append([name, cost])
    return Section('Cost', tables=[Table(['', 'training'], rows)])


def _write_json(correct, verdicts: list[str], leaks: str, out: Path) -> None:
    figures = {
        protocol: {name: accuracy(values)._asdict() for name, values in found.items()}
        for protocol, found in correct.items()
    }
    content = {'verdicts': verdicts, 'leaks': leaks, 'accuracy': figures}
    (out / 'comparison.json').write_text(json.dumps(content, indent=1) + '\n')
