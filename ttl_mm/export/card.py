"""A model card: what a file of weights is, what was measured with it, and how to load it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttl_mm.checkpoint.input_settings import InputSettings
from ttl_mm.errors import UserError
from ttl_mm.evaluation.figures import describe
from ttl_mm.files.plain_json import read_json

Result = dict[str, Any]  # as in a manifest: metric, value, source, and data, command or by


@dataclass(frozen=True)
class Facts:
    """What a card says, all of it from files."""

    name: str
    license: str
    library: str  # that loads the file
    about: str
    architecture: str
    images: str  # how they must be prepared
    file: str
    size: int
    sha256: str
    results: Sequence[Result]
    code: str  # that loads the file


def model_card(facts: Facts) -> str:
    """The card in markdown, below metadata that Hugging Face's hub reads."""
    front = {
        'license': facts.license.lower(),
        'library_name': facts.library,
        'pipeline_tag': 'image-feature-extraction',
        'tags': ['self-supervised', 'truncated-triplet', 'ttl_mm'],
        **_index(facts),
    }
    lines = [f'{key}: {json.dumps(value)}' for key, value in front.items()]  # JSON is YAML
    head = '\n'.join(['---', *lines, '---'])
    return f"""{head}

# {facts.name}

{facts.about or 'Nobody has described what was trained on what.'}

| | |
| --- | --- |
| architecture | {facts.architecture} |
| images | {facts.images} |
| file | `{facts.file}`, {facts.size:,} bytes |
| SHA-256 | `{facts.sha256}` |
| license | {facts.license} |

## Load it

```python
{facts.code}
```

## Figures

{_figures(facts.results)}

It was trained without labels by ttl_mm, an implementation of the
truncated triplet loss of Wang et al., *Solving Inefficiency of Self-supervised Representation
Learning*, ICCV 2021.
"""


def _figures(results: Iterable[Result]) -> str:
    rows = [
        f'| {r["metric"]} | {r["value"]:g} | {r.get("data", "")} | {r["source"]}: '
        f'{r.get("command") or r.get("by", "")} |'
        for r in results
    ]
    head = ['| metric | value | on | source |', '| --- | --- | --- | --- |']
    return '\n'.join([*head, *rows]) if rows else 'Nothing has been measured with this file.'


def _index(facts: Facts) -> dict[str, Any]:
    """The measured results as the hub's ``model-index``; it has no place for those of others."""
    measured = [r for r in facts.results if r['source'] == 'measured' and r.get('data')]
    results = [
        {
            'task': {'type': 'image-classification'},
            'dataset': {'type': 'image-folder', 'name': r['data']},
            'metrics': [{'type': 'accuracy', 'name': r['metric'], 'value': r['value']}],
        }
        for r in measured
    ]
    return {'model-index': [{'name': facts.name, 'results': results}]} if results else {}


def results_of(path: str | Path, sha256: str) -> list[Result]:
    """The results in a ``figures.json`` of `ttl eval`, if it is about the file with this hash.

    Raises:
        UserError: It holds no figures, or those of other weights.
    """
    try:
        figures = read_json(Path(path), allow_nan=True)
        return [_result(figure, path, sha256) for figure in figures]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f'{path} is no figures.json of `ttl eval` ({error}).') from error


def _result(figure: Mapping[str, Any], path: str | Path, sha256: str) -> Result:
    if figure['checkpoint_sha256'] != sha256:
        raise UserError(
            f'{path} has figures of other weights ({figure["checkpoint_sha256"][:8]}) than '
            f'this file ({sha256[:8]}): run `ttl eval` on that file.'
        )
    test = figure['test']
    return {
        'metric': f'{describe(dict(figure))}, {figure["metric"]}',
        'value': float(figure['value']),
        'source': 'measured',
        'data': f'{int(test["images"])} images of {int(figure["classes"])} classes, '
        f'fingerprint {test["fingerprint"][:12]}',
        'command': 'ttl eval',
    }


def described(images: InputSettings | None) -> str:
    """How images must be prepared, in words."""
    if images is None:
        return 'as for ImageNet: the file does not say'
    size = f'{images.size} x {images.size}'
    mean, std = (
        ', '.join(f'{value:g}' for value in values) for values in (images.mean, images.std)
    )
    channels = f'{len(images.mean)} channels' if images.bands else 'RGB from 0 to 255'
    return f'{channels}, {size} pixels, minus ({mean}), divided by ({std})'
