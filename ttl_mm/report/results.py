"""What evaluations measured, by which protocol, from the files that they leave behind."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ttl_mm.errors import UserError
from ttl_mm.files.plain_json import read_json
from ttl_mm.report.dumped_config import lookup, read_dumped, read_literals
from ttl_mm.report.run import Run, is_finite

KNOWN = (
    'ttl report reads figures.json of `ttl eval` and `ttl reid eval`, results.json of '
    'ttl_mm.ResultHook, and TIMESTAMP/TIMESTAMP.json of tools/test.py'
)
# beginning of a logged metric of detection: what it measures; the first that fits counts
DETECTION = {
    'coco/': 'COCO AP (%)',
    'voc/coco101_': 'AP (%) on VOC by the rules of COCO',
    'voc/': 'VOC2007 11-point AP (%)',
}
# what a figure of `ttl eval` says beside the settings of its protocol
NO_SETTINGS = {
    'protocol', 'metric', 'value', 'spread', 'checkpoint', 'checkpoint_sha256', 'weights_sha256',
    'split', 'train', 'test', 'classes', 'data_fingerprint', 'queries', 'skipped_queries',
    'gallery', 'extracted_with', 'measured_with',
}  # fmt: skip


class Result(NamedTuple):
    """One row of a protocol's table; ``values`` are the metrics as shown."""

    protocol: str
    folder: Path
    weights: str
    data: str
    settings: str
    values: dict[str, str]


def find_results(path: Path) -> list[Path]:
    """Files with results: ``path`` itself, or those below a folder."""
    if path.is_file():
        return [path]
    named = [file for name in ('figures', 'results') for file in path.rglob(f'{name}.json')]
    tests = [file for file in path.glob('*/*.json') if file.stem == file.parent.name]
    return sorted(named) + sorted(tests)


def read_results(file: Path) -> list[Result]:
    """The results in one of the files of :func:`find_results`."""
    try:
        content = read_json(file, allow_nan=True)
        if isinstance(content, list):
            return merged(_figure(figure, file.parent) for figure in content)
        if 'last' in content:
            return _epochs(content, file.parent)
        return logged_results(content, file.parent.parent, read_dumped(file.parent), 'test')
    except OSError as error:
        raise UserError(f'{file} cannot be read: {error.strerror}.') from error
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise UserError(f'{file} holds no results that are known here: {KNOWN}.') from error


def merged(results: Iterable[Result]) -> list[Result]:
    """Results that differ in their metrics only become one."""
    rows: dict[tuple, Result] = {}
    for result in results:
        rows.setdefault(result[:-1], result).values.update(result.values)
    return list(rows.values())


def _figure(figure: dict, folder: Path) -> Result:
    """A figure of ``ttl eval`` or ``ttl reid eval``."""
    if 'gallery' in figure:
        data = f'{figure["queries"]:,} queries, {figure["gallery"]:,} images in the gallery, '
        data += figure['data_fingerprint'][:8]
    else:
        data = _splits(figure['train'], figure['test'], 'fingerprint')
    settings = [f'{k} {v}' for k, v in figure.items() if k not in NO_SETTINGS and v is not None]
    spread = f' ± {figure["spread"]:.2f}' if 'spread' in figure else ''
    weights = f'{figure.get("checkpoint", "weights")} ({figure["weights_sha256"][:8]})'
    values = {figure['metric']: f'{figure["value"]:.2f}{spread}'}
    return Result(figure['protocol'], folder, weights, data, ', '.join(settings), values)


def _splits(train: dict, test: dict, fingerprint: str) -> str:
    counts = f'{train["images"]:,} images to train on, {test["images"]:,} to test on'
    return f'{counts}, {train[fingerprint][:8]}/{test[fingerprint][:8]}'


def _epochs(result: dict, folder: Path) -> list[Result]:
    """Last and best epoch of a run with ResultHook."""
    config = read_literals(max(folder.glob('*/vis_data/config.py'), default=folder / 'none'))
    weights = f'{_start(config)} ({result["backbone_sha256"][:8]})'
    data = _splits(result['train'], result['val'], 'data')
    notes = {'last': f' of {result["epochs"]}', 'best': ', chosen by the test images'}
    rows = []
    for name, note in notes.items():
        settings = f'{name} epoch: {result[name]["epoch"]}{note}'
        values = {_metric(k): f'{v:.2f}' for k, v in result[name].items() if k != 'epoch'}
        rows.append(Result(result['protocol'], folder, weights, data, settings, values))
    return rows


def logged_results(metrics: dict, folder: Path, config: dict, loader: str) -> list[Result]:
    """Results among logged metrics: of detection, or of a test by a known protocol.

    ``loader`` is 'val' if they were measured while training, 'test' if by ``tools/test.py``.
    """
    data = lookup(config, f'{loader}_dataloader', 'dataset') or {}
    images = '/'.join(str(data[k]).rstrip('/') for k in ('data_root', 'ann_file') if data.get(k))
    weights, settings = _start(config), 'last validation of the run'
    if loader == 'test':
        weights, settings = f'{config.get("load_from")}, which started from {weights}', 'test'
    rows = []
    for key, value in metrics.items():
        if is_finite(value) and (protocol := protocol_of(config, key)):
            scale = 100 if detection_family(key) else 1  # the others are percentages already
            shown = {_metric(key): f'{scale * value:.2f}' if value >= 0 else '–'}  # -1: no object
            rows.append(Result(protocol, folder, weights, images or '–', settings, shown))
    return merged(rows)


def detection_results(run: Run) -> list[Result]:
    """The last validation of a detection run; none of any other run."""
    keys = dict.fromkeys(key for record in run.records for key in record if detection_family(key))
    found = {key: values[-1] for key in keys if len(values := run.series(key)[1])}
    return logged_results(found, run.folder, run.config, 'val')


def _metric(key: str) -> str:
    """Header of a logged metric; of detection, the protocol has the unit."""
    name = key.rpartition('/')[2].removeprefix('coco101_')
    return f'{name} (%)' if key.startswith(('accuracy/', 'reid/')) else name


def _start(config: dict) -> str:
    return lookup(config, 'model', 'backbone', 'init_cfg', 'checkpoint') or 'random weights'


def run_protocols(run: Run) -> set[str]:
    """Protocols of an evaluation run; empty for pre-training."""
    keys = {key for record in run.records for key in record}
    named = [hook_protocol(run.config), *(protocol_of(run.config, key) for key in keys)]
    return {protocol for protocol in named if protocol}


def protocol_of(config: dict, key: str) -> str | None:
    """The protocol by which a run with this config measured ``key``; None where it is unknown."""
    if family := detection_family(key):
        recipe = {
            'model': lookup(config, 'model', 'type'),
            'iterations': lookup(config, 'train_cfg', 'max_iters'),
            'epochs': lookup(config, 'train_cfg', 'max_epochs'),
            'learning rate': lookup(config, 'optim_wrapper', 'optimizer', 'lr'),
        }
        known = [f'{name} {value}' for name, value in recipe.items() if value]
        return ', '.join([f'detection, {family}', *known])
    if key.startswith('reid/'):
        return 're-identification by tools/test.py'
    return hook_protocol(config) if key.startswith('accuracy/') else None


def hook_protocol(config: dict) -> str | None:
    """The protocol that a run's ResultHook wrote, or will write."""
    hooks = [*(config.get('default_hooks') or {}).values(), *(config.get('custom_hooks') or ())]
    named = [lookup(h, 'protocol') for h in hooks if str(lookup(h, 'type')).endswith('ResultHook')]
    return config.get('result_protocol') or next(iter(named), None)


def detection_family(key: str) -> str:
    """What a logged metric of detection measures; '' for any other metric."""
    return next((what for start, what in DETECTION.items() if key.startswith(start)), '')
