"""The manifest: what the zoo offers, where each file is, and how to recognize it.

``manifest.json`` maps a name to an :class:`Entry`. Only the standard library is needed to read it.
"""

import difflib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from ttl_mm.errors import UserError
from ttl_mm.files.plain_json import read_json
from ttl_mm.files.recipes import recipes_root
from ttl_mm.files.regular import is_regular
from ttl_mm.zoo.architectures import checked_architecture

SCHEME = 'ttl_mm://'  # what a zoo name looks like where a checkpoint is asked for
MANIFEST = Path(__file__).with_name('manifest.json')
KINDS = {
    'backbone': 'the backbone alone: for features, evaluation and fine-tuning',
    'networks': 'all networks without optimizer: to start another pre-training from',
}
NAME = re.compile(r'[a-z0-9][a-z0-9_.-]*')
_FILE = re.compile(r'[A-Za-z0-9][A-Za-z0-9_.-]*\.(pth|safetensors)')
_SHA256 = re.compile(r'[0-9a-f]{64}')
_NEEDED = {'metric', 'value', 'source'}  # in a result
_RESULT = {*_NEEDED, 'data', 'command', 'by'}
MAX_TEXT = 2000  # characters of any text in an entry


@dataclass(frozen=True)
class Entry:
    """One file of the zoo.

    An entry describes: nothing in it is executed, imported or built by its name. ``backbone`` is
    one of :data:`~ttl_mm.zoo.architectures.ARCHITECTURES`, or None where nobody knows it.

    ``urls`` are mirrors, tried in order: http(s)://, file://, or a path relative to the manifest
    for a file that ships with it. ``size`` and ``sha256`` are None for a file nobody has hashed
    yet. A redirect to another host is followed only if ``redirect_hosts`` names it.
    """

    name: str
    file: str
    size: int | None
    sha256: str | None
    urls: tuple[str, ...]
    kind: str
    license: str
    about: str
    backbone: dict[str, Any] | None
    images: str = 'ImageNet mean and std, RGB'  # how to normalize them
    config: str | None = None
    results: tuple[dict[str, Any], ...] = ()
    redirect_hosts: tuple[str, ...] = ()
    folder: Path = field(default=MANIFEST.parent, repr=False)

    def __post_init__(self):
        """Refuse what could leave the cache folder or escape the checks."""
        self._check_types()
        hashed, sha256 = self.sha256 is not None, self.sha256 or ''
        sized = type(self.size) is int and self.size > 0
        rules = {
            f'its name {self.name!r} is not plain': NAME.fullmatch(self.name),
            f'its file name {self.file!r} is not plain': _FILE.fullmatch(self.file),
            f'its kind {self.kind!r} is none of {", ".join(KINDS)}': self.kind in KINDS,
            f'its sha256 {self.sha256!r} is none': not hashed or _SHA256.fullmatch(sha256),
            f'its size {self.size!r} is no size': not hashed or sized,
            'it has a size but no sha256': hashed or self.size is None,
            'it ships a file without sha256': hashed or not self.shipped,
            'it has no url': self.urls,
            **{f'its url {url!r} is neither http(s)://, file:// nor a path beside the manifest':
               _is_url(url) for url in self.urls},
        }  # fmt: skip
        broken = [rule for rule, holds in rules.items() if not holds]
        if broken:
            raise UserError(f'zoo entry {self.name!r}: {broken[0]}; correct the manifest.')

    def _check_types(self) -> None:
        """Every field is what its annotation says, and no text is endless."""
        texts = [self.name, self.file, self.kind, self.license, self.about, self.images,
                 self.config or '', self.sha256 or '']  # fmt: skip
        problem = None
        for many in (self.urls, self.redirect_hosts):
            texts += many if isinstance(many, (tuple, list)) else [None]
        if not all(isinstance(text, str) and len(text) <= MAX_TEXT for text in texts):
            problem = 'a field is no text, or longer than any text needs to be'
        elif not all(map(_is_result, self.results)):
            problem = f'its results are not made of {", ".join(sorted(_RESULT))}'
        elif self.backbone is not None:
            try:
                object.__setattr__(self, 'backbone', checked_architecture(self.backbone))
            except ValueError as error:
                problem = str(error)
        if problem:
            raise UserError(f'zoo entry {str(self.name)[:80]!r}: {problem}; correct the manifest.')

    @property
    def recipe(self) -> Path | None:
        """The config that measures this entry; None where it is not among our recipes.

        A config is Python and runs, so only the manifest that ships with ttl_mm may name one.
        """
        own = self.folder == MANIFEST.parent
        path = recipes_root() / self.config if own and self.config else None
        return path if path and is_regular(path) else None

    @property
    def shipped(self) -> Path | None:
        """The file beside the manifest, if this entry has one."""
        relative = [url for url in self.urls if not urlsplit(url).scheme]
        return self.folder / relative[0] if relative else None

    @property
    def remote_urls(self) -> list[str]:
        """The mirrors in order, the user's own (``$TTL_ZOO_MIRROR``) first."""
        own = os.environ.get('TTL_ZOO_MIRROR')
        urls = [url for url in self.urls if urlsplit(url).scheme]
        return [f'{own.rstrip("/")}/{self.file}', *urls] if own else urls


def _is_result(result: Any) -> bool:
    """Whether this is a dict of known keys with texts and numbers."""
    if not isinstance(result, dict) or not _NEEDED <= result.keys() <= _RESULT:
        return False
    texts = [value for key, value in result.items() if key != 'value']
    plain = all(isinstance(text, str) and len(text) <= MAX_TEXT for text in texts)
    return plain and type(result['value']) in (int, float)


def _is_url(url: str) -> bool:
    parts = urlsplit(url)
    if parts.scheme in ('http', 'https'):
        return bool(parts.hostname)
    if parts.scheme == 'file':
        return parts.netloc in ('', 'localhost')
    path = PurePosixPath(url)
    return not parts.scheme and '..' not in path.parts and not path.is_absolute()


def read_manifest(path: str | Path | None = None) -> dict[str, Entry]:
    """All entries by name; ``path`` defaults to ``$TTL_ZOO_MANIFEST`` or the one that ships."""
    path = Path(path or os.environ.get('TTL_ZOO_MANIFEST') or MANIFEST)
    try:
        content = read_json(path)
        return {
            name: Entry(name=name, folder=path.parent, **_fields(fields))
            for name, fields in content.items()
        }
    except OSError as error:
        raise UserError(f'the manifest {path} cannot be read: {error.strerror}.') from error
    except UserError:
        raise
    except (ValueError, TypeError, AttributeError) as error:
        raise UserError(f'the manifest {path} is not valid: {error}.') from error


def _fields(entry: dict[str, Any]) -> dict[str, Any]:
    """The fields of an entry; manifests written by 0.1 say ``licence``."""
    renamed = {'license' if key == 'licence' else key: value for key, value in entry.items()}
    if len(renamed) < len(entry):
        raise ValueError('an entry has both license and licence')
    return {key: tuple(v) if isinstance(v, list) else v for key, v in renamed.items()}


def find_entry(name: str, manifest: str | Path | None = None) -> Entry:
    """The entry of that name; the error suggests the nearest one."""
    entries = read_manifest(manifest)
    if name not in entries:
        near = difflib.get_close_matches(name, entries, n=1, cutoff=0.4)
        hint = f'did you mean {near[0]}?' if near else '`ttl zoo list` shows all names.'
        raise UserError(f'the zoo has no {name!r}: {hint}')
    return entries[name]
