"""Damage files in every way we can think of, and let each reader of ours read them.

    python tools/fuzz.py [--seconds 300] [--mutants N] [--seed 0] [--readers pth pkl ...]

A reader may return a value or raise a UserError. Anything else is a finding: another exception, an
end by a signal, more than 5 s for a file, more than 1 GB of memory for a file. Findings are kept
below --out, one file each, and the exit code is 1. The seeds are files that this tool makes itself.
Mutants depend on the seed and on their number alone, so a finding can be made again.

Readers run in forked children, so that a crash of one does not end the rest; a child that makes no
progress is killed.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import pickle
import random
import resource
import shutil
import signal
import sys
import tarfile
import tempfile
import threading
import time
import traceback
import zipfile
from collections.abc import Callable
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import ttl_mm.registry  # noqa: F401  isort: skip
import cv2
import numpy as np
import torch
from PIL import Image
from safetensors.torch import save

from ttl_mm.checkpoint.load import load_backbone_state
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.checkpoint.sealed import verify, write_checkpoint
from ttl_mm.config import check_bases
from ttl_mm.datasets.bands import read_bands
from ttl_mm.datasets.decode import decode_image
from ttl_mm.datasets.image_list import list_path, read_list
from ttl_mm.datasets.name_list import NameList
from ttl_mm.engine.state import work_dir_lock
from ttl_mm.errors import UserError
from ttl_mm.evaluation.feature_file import FeatureWriter, read_features
from ttl_mm.explore.tables import read_table, write_table
from ttl_mm.files.archives.index import archive_index
from ttl_mm.files.archives.member import open_archive
from ttl_mm.files.cache_folder import cache_folder
from ttl_mm.files.stores import remote
from ttl_mm.files.stores.cache import open_remote, remote_file
from ttl_mm.files.stores.listing import remote_archives
from ttl_mm.files.stores.url import place_of
from ttl_mm.finetuning.resnet import read_description
from ttl_mm.planning.train_plan import Request
from ttl_mm.pretraining.run_folder import RunFolder
from ttl_mm.report.dumped_config import read_literals
from ttl_mm.report.forecasting import forecast_run
from ttl_mm.report.logs import load_run
from ttl_mm.report.results import read_results
from ttl_mm.tasks.classification.classifier import read_layer
from ttl_mm.tasks.detection.checks import check_coco, check_voc
from ttl_mm.tasks.detection.read_data import read_data
from ttl_mm.tasks.segmentation.masked import read_masks
from ttl_mm.zoo.cache import _read_pins
from ttl_mm.zoo.manifest import MANIFEST, read_manifest

MAX_SECONDS = 5
MAX_BYTES = 10**9
PATIENCE = 4 * MAX_SECONDS  # with a child that its own alarm does not end
BATCH = 500  # mutants per child
WEIGHTS = ('pth', 'pth inside', 'legacy', 'pkl', 'safetensors', 'onnx', 'network')


class Reader(NamedTuple):
    """How to make files worth damaging, where to put one, and how it is read."""

    name: str
    seeds: list[bytes]
    read: Callable[[Path], object]  # takes the path
    file: str  # its name below the folder


class Finding(Exception):
    """What a reader did that it must not."""


def main() -> int:
    """Fuzz each reader for its share of the time, print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--seconds', type=float, default=300, help='for all readers together')
    parser.add_argument('--mutants', type=int, help='of each weight reader, a quarter of others')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--readers', nargs='+', help='default: all')
    parser.add_argument('--out', type=Path, default=Path('work_dirs/fuzz'), help='for findings')
    args = parser.parse_args()
    readers = [r for r in all_readers() if not args.readers or r.name in args.readers]
    bad = 0
    print('| reader | mutants | read | refused | other | by a signal | over 5 s | over 1 GB |')
    print('|' + ' --- |' * 8, flush=True)
    kinds = ('read', 'refused', 'other', 'signal', 'slow', 'large')
    for reader in readers:
        limit = args.mutants and (args.mutants if reader.name in WEIGHTS else args.mutants // 4)
        seconds = None if limit else args.seconds / len(readers)
        counts = fuzz(reader, args.seed, seconds, limit, args.out)
        total = sum(counts.values())
        bad += total - counts['read'] - counts['refused']
        cells = (f'{n:,}' for n in (total, *(counts[kind] for kind in kinds)))
        print(f'| {reader.name} | {" | ".join(cells)} |', flush=True)
    print(f'\n{bad} findings' + (f' in {args.out}' if bad else ''))
    return int(bad > 0)


def fuzz(
    reader: Reader, seed: int, seconds: float | None, limit: int | None, out: Path
) -> dict[str, int]:
    """Run batches of mutants until the time or their number is used up."""
    counts = dict.fromkeys(('read', 'refused', 'other', 'signal', 'slow', 'large'), 0)
    started, first = time.monotonic(), 0
    while (first < limit) if limit else (time.monotonic() - started < (seconds or 0)):
        last = min(first + BATCH, limit or first + BATCH)
        while first < last:
            first = _run_batch(reader, seed, first, last, counts, out)
    return counts


def _run_batch(reader: Reader, seed: int, first: int, last: int, counts: dict, out: Path) -> int:
    """Read the mutants from ``first`` on in a child; returns where to go on."""
    with tempfile.TemporaryDirectory(dir=_memory_disk()) as folder:
        progress = Path(folder) / 'progress'
        progress.write_text('')
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            _be_child(reader, seed, first, last, Path(folder), progress)
        status = _wait_for(pid, progress)
        lines = progress.read_text().splitlines()
        for number, line in enumerate(lines, first):
            kind, _, text = line.partition(' ')
            counts[kind] += 1
            if kind not in ('read', 'refused'):
                _keep(reader, seed, number, f'{kind} {text}', out)
        done = first + len(lines)
        if status == 0:
            return done
        late = (-signal.SIGALRM, -signal.SIGKILL)
        kind = 'slow' if os.waitstatus_to_exitcode(status) in late else 'signal'
        counts[kind] += 1
        _keep(reader, seed, done, f'{kind} {status}', out)
        return done + 1


def _wait_for(pid: int, progress: Path) -> int:
    """The status with which a child ended, or was ended because it did not go on."""
    seen, since = 0, time.monotonic()
    while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
        if (size := progress.stat().st_size) != seen:
            seen, since = size, time.monotonic()
        if time.monotonic() - since > PATIENCE:
            os.kill(pid, signal.SIGKILL)
            return os.waitpid(pid, 0)[1]
        time.sleep(0.005)
    return ended[1]


def _be_child(reader, seed, first, last, folder, progress) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what libraries say about damaged images
    path = folder / reader.file
    path.parent.mkdir(parents=True, exist_ok=True)
    os.environ['XDG_CACHE_HOME'] = str(folder / 'cache')
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends the process
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with progress.open('a', buffering=1) as log:
        for number in range(first, last):
            path.write_bytes(mutant(reader.seeds, seed, number))
            signal.alarm(MAX_SECONDS)
            kind = _outcome(reader, path)
            signal.alarm(0)
            now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            if (now - peak) * 1024 > MAX_BYTES:
                kind, peak = 'large', now
            log.write(kind + '\n')
    os._exit(0)


def _outcome(reader: Reader, path: Path) -> str:
    try:
        reader.read(path)
        return 'read'
    except UserError:
        return 'refused'
    except BaseException:
        return 'other ' + ' | '.join(traceback.format_exc().splitlines()[-3:])


def _keep(reader: Reader, seed: int, number: int, text: str, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    file = out / f'{reader.name}-{seed}-{number}.bin'
    file.write_bytes(mutant(reader.seeds, seed, number))
    file.with_suffix('.txt').write_text(text + '\n')


def _memory_disk() -> str | None:
    return '/dev/shm' if os.access('/dev/shm', os.W_OK) else None


# Numbers at which lengths, signs and shapes break.
_NUMBERS = [0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
            2**31 - 8, 2**62, 2**63 - 1, 2**63, 2**64 - 1]  # fmt: skip
_TOKENS = [
    b'PK\x03\x04', b'PK\x01\x02', b'PK\x05\x06', b'PK\x06\x06', b'PK\x06\x07', b'\xff\xda',
    b'\xff\xd9', b'\xff\xc2', b'\xff\xc0', b'cos\nsystem\n', b'\x93', b'R', b'b', b'(', b't',
    b'Q', b'2\x86', b'.', b'K\x01', b'}', b']', b's', b'u', b'J\xff\xff\xff\x7f', b'[' * 40,
    b'{"a":' * 40, b'null', b'NaN', b'1e999', b'-1', b'9' * 25, b'true', b'"\\ud800"', b'\0',
    b'\r\n', b'../', b'!!python/object/apply:os.getpid []',
    b'ctorch._utils\n_rebuild_tensor_v2\n', b'\x1b[2J', b'cnumpy\nndarray\n', b'\xef\xbb\xbf',
    b'<!ENTITY a "b">', b'/dev/zero',
]  # fmt: skip


def mutant(seeds: list[bytes], seed: int, number: int) -> bytes:
    """One of the seeds, damaged; a function of its arguments."""
    rng = random.Random(f'{seed} {number}')
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 2, 3, 5, 9, 20))):
        if not data:
            break
        # headers are at the beginning, directories at the end
        reach = rng.choice((len(data), min(len(data), 400)))
        place = rng.randrange(reach) if rng.random() < 0.7 else len(data) - 1 - rng.randrange(reach)
        kind = rng.randrange(9)
        if kind <= 1:
            data[place] ^= 1 << rng.randrange(8)
        elif kind == 2:
            data[place] = rng.randrange(256)
        elif kind == 3:
            width = rng.choice((1, 2, 4, 8))
            order = rng.choice(('little', 'big'))
            value = (rng.choice(_NUMBERS) % 256**width).to_bytes(width, order)
            data[place : place + width] = value
        elif kind == 4:
            data[place:place] = rng.choice(_TOKENS)
        elif kind == 5:
            token = rng.choice(_TOKENS)
            data[place : place + len(token)] = token
        elif kind == 6:
            length = rng.randrange(1, 64)
            source = rng.randrange(len(data))
            data[place:place] = data[source : source + length] * rng.choice((1, 1, 2, 50))
        elif kind == 7:
            del data[place : place + rng.randrange(1, 64)]
        else:
            other = rng.choice(seeds)
            start = rng.randrange(len(other) or 1)
            data[place : place + 32] = other[start : start + rng.randrange(1, 200)]
    if rng.random() < 0.05:
        del data[rng.randrange(len(data) + 1) :]
    return bytes(data)


def _state() -> dict[str, torch.Tensor]:
    return {
        'conv1.weight': torch.ones(4, 3, 3, 3),
        'bn1.running_var': torch.ones(4),
        'bn1.num_batches_tracked': torch.tensor(1),
        'layer1.0.conv1.weight': torch.ones(4, 4),
    }


def _torch_seeds(zipped: bool) -> list[bytes]:
    contents = [
        _state(),
        {'state_dict': _state(), 'meta': {'epoch': 1, 'text': 'x'}, 'lr': [0.1]},
        {'model': {n: t.half() for n, t in _state().items()}, 'rng': np.arange(3)},
    ]
    seeds = []
    for content in contents:
        stream = io.BytesIO()
        torch.save(content, stream, _use_new_zipfile_serialization=zipped)
        seeds.append(stream.getvalue())
    return seeds


def _descriptions() -> list[bytes]:
    """The pickles inside the archives, which a checksum protects from being damaged there."""
    seeds = []
    for data in _torch_seeds(True):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            seeds += [archive.read(name) for name in archive.namelist() if name.endswith('.pkl')]
    return seeds


def _read_description(path: Path) -> object:
    """Put a damaged pickle into an archive that is whole."""
    archive = path.with_name('inside.pth')
    with zipfile.ZipFile(archive, 'w') as file:
        file.writestr('a/data.pkl', path.read_bytes())
        for i, tensor in enumerate(_state().values()):
            file.writestr(f'a/data/{i}', tensor.numpy().tobytes())
    return load_backbone_state(archive)


def _network_seeds() -> list[bytes]:
    """The pickles inside files of a classifier and a detector of ours."""
    resnet = {'type': 'mmpretrain.ResNet', 'depth': 18, 'stem_channels': 8, 'base_channels': 8}
    layer = {'head.fc.weight': torch.ones(2, 3), 'head.fc.bias': torch.ones(2)}
    shared = {'classes': ['a', 'b'], 'backbone': resnet, 'written_by': 'x',
              'input': {'size': 64, 'mean': [1.0, 2.0, 3.0], 'std': [1.0, 2.0, 3.0]}}  # fmt: skip
    seeds = []
    for meta in (shared, {**shared, 'detector': 'mask-rcnn'}):
        stream = io.BytesIO()
        torch.save({'state_dict': layer, 'meta': meta}, stream)
        with zipfile.ZipFile(stream) as archive:
            seeds.append(archive.read('archive/data.pkl'))
    return seeds


def _read_network(path: Path) -> object:
    archive = path.with_name('inside.pth')
    with zipfile.ZipFile(archive, 'w') as file:
        file.writestr('a/data.pkl', path.read_bytes())
        for number, size in enumerate((24, 8)):
            file.writestr(f'a/data/{number}', bytes(size))
    content = read_checkpoint(archive)
    if found := read_description(content.get('meta'), 'detector'):
        found.backbone()
    return read_layer(archive)


def _pickle_seeds() -> list[bytes]:
    arrays = {name: tensor.numpy() for name, tensor in _state().items()}
    contents = [
        {'model': arrays, '__author__': 'x'},
        {**arrays, 'order': np.asfortranarray(np.ones((2, 3)))},
    ]
    return [pickle.dumps(content, protocol) for content in contents for protocol in (2, 4, 5)]


def _onnx_seeds() -> list[bytes]:
    from onnx import TensorProto, helper, numpy_helper

    weights = [numpy_helper.from_array(t.numpy(), n) for n, t in _state().items()]
    floats = helper.make_tensor('raw', TensorProto.FLOAT, [2], [1.0, 2.0])
    graph = helper.make_graph([], 'g', [], [], [*weights, floats])
    model = helper.make_model(graph)
    helper.set_model_props(model, {'num_batches_tracked': '{"a.num_batches_tracked": 3}'})
    return [model.SerializeToString()]


def _written(write: Callable[[Path], object]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'file'
        write(path)
        return path.read_bytes()


def _checkpoint(path: Path) -> None:
    write_checkpoint(path, {'a': 1}, 3, 1)


def _features(path: Path) -> None:
    writer = FeatureWriter(path, {4: 3}, ['a', 'b'], ['x', 'y'], {'weights': 'w'}, 2)
    writer.write(0, {4: np.ones((2, 3))}, np.array([0, 1]))
    writer.finish()


def _read_sealed_features(path: Path) -> object:
    """A damaged file with the seal of what it holds now: a stranger can seal what he likes."""
    data = path.read_bytes()
    place = data.find(b'"sha256": "') + len(b'"sha256": "')
    unsealed = data[:place] + b'0' * 64 + data[place + 64 :]
    seal = hashlib.sha256(unsealed).hexdigest().encode()
    path.write_bytes(data[:place] + seal + data[place + 64 :])
    return read_features(path)


_PIXEL = b'P6 1 1 255\n123'


def _shard_seeds(kind: str) -> list[bytes]:
    """Archives of two images and their labels: tar in its two dialects, zip stored and packed."""
    long = 'b/' + 'x' * 120
    files = [('a/1.ppm', _PIXEL), ('a/1.cls', b'3'), (f'{long}.ppm', _PIXEL),
             (f'{long}.json', b'{"label": 1}')]  # fmt: skip
    seeds = []
    for variant in range(2):
        stream = io.BytesIO()
        if kind == 'tar':
            dialect = (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)[variant]
            with tarfile.open(fileobj=stream, mode='w', format=dialect) as archive:
                for name, content in files:
                    member = tarfile.TarInfo(name)
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
        else:
            method = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)[variant]
            with zipfile.ZipFile(stream, 'w', method) as packed:
                for name, content in files:
                    packed.writestr(name, content)
        content = stream.getvalue()
        seeds.append(content.rstrip(b'\0') + bytes(1024) if kind == 'tar' else content)
    return seeds


def _parquet_shard(path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    images = [{'bytes': _PIXEL, 'path': name} for name in ('a.ppm', 'b.ppm')]
    pyarrow.parquet.write_table(pyarrow.table({'image': images, 'label': [0, 1]}), path)


def _read_shard(path: Path) -> object:
    """Index an archive and decode every image of it."""
    shutil.rmtree(cache_folder('archives'))
    open_archive.cache_clear()
    return [decode_image(f'{path}/{name}') for name in NameList(archive_index(path).names)]


_LOCK = '{"host": "a", "machine": "a b", "pid": 1, "born": "7", "started": "x", "token": "0f"}'


def _read_lock(path: Path) -> None:
    work_dir_lock.SILENCE = 0  # seconds of waiting for a sign of life
    lock = work_dir_lock.WorkDirLock(path.parent, tell=lambda line: None)
    lock.acquire()
    lock.release()


def _image_seeds() -> list[bytes]:
    rng = np.random.default_rng(0)
    picture = Image.fromarray(cv2.resize(rng.integers(0, 255, (6, 8, 3), np.uint8), (40, 30)))
    seeds = []
    for kind in ('JPEG', 'JPEG', 'PNG', 'WEBP', 'GIF', 'BMP', 'TIFF', 'PPM', 'JPEG2000'):
        stream = io.BytesIO()
        picture.save(stream, kind, progressive=len(seeds) == 1)
        seeds.append(stream.getvalue())
    return seeds


def _deep_seeds(kind: str) -> list[bytes]:
    """Images beyond 8-bit RGB in one format, in its ways to pack them."""
    image = np.random.default_rng(0).integers(0, 4096, (36, 40, 4), np.uint16)
    stream = io.BytesIO()
    if kind == 'npy':
        np.save(stream, image)
        return [stream.getvalue()]
    if kind == 'png':
        return [cv2.imencode('.png', image[:, :, :n])[1].tobytes() for n in (1, 3, 4)]
    if kind == 'dicom':
        return _dicom_seeds(image)
    import tifffile

    seeds = []
    geo = [(33550, 'd', 3, (10.0, 10.0, 0.0), True), (42113, 's', 0, '7', True)]
    for options in ({}, {'compression': 'zlib', 'predictor': True}, {'tile': (16, 16)},
                    {'bigtiff': True, 'planarconfig': 'separate'}, {'extratags': geo}):  # fmt: skip
        stream = io.BytesIO()
        separate = options.get('planarconfig') == 'separate'
        array = image.transpose(2, 0, 1) if separate else image
        options = {'planarconfig': 'contig', **options}
        tifffile.imwrite(stream, array, photometric='minisblack', **options)
        seeds.append(stream.getvalue())
    for compression in ('tiff_lzw', 'packbits', 'zstd', 'lzma'):
        stream = io.BytesIO()
        Image.fromarray(image[:, :, 0]).save(stream, 'TIFF', compression=compression)
        seeds.append(stream.getvalue())
    return seeds


def _dicom_seeds(image: np.ndarray) -> list[bytes]:
    import pydicom
    from pydicom.uid import JPEG2000Lossless, JPEGBaseline8Bit, RLELossless

    seeds = []
    for syntax in (pydicom.uid.ExplicitVRLittleEndian, RLELossless, JPEGBaseline8Bit,
                   JPEG2000Lossless):  # fmt: skip
        dataset = pydicom.Dataset()
        dataset.preamble, dataset.file_meta = bytes(128), pydicom.dataset.FileMetaDataset()
        dataset.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
        dataset.Rows, dataset.Columns, dataset.SamplesPerPixel = 36, 40, 1
        dataset.BitsAllocated, dataset.BitsStored, dataset.HighBit = 16, 12, 11
        dataset.PixelRepresentation, dataset.PhotometricInterpretation = 0, 'MONOCHROME1'
        dataset.RescaleSlope, dataset.RescaleIntercept, dataset.PixelPaddingValue = 2, -1024, 0
        dataset.PixelPaddingRangeLimit = 3
        item = pydicom.Dataset()
        item.PatientID = 'x'
        dataset.ReferencedImageSequence = pydicom.Sequence([item])
        dataset.PixelData = image[:, :, 0].tobytes()
        dataset['PixelData'].VR = 'OW'
        if syntax is RLELossless:
            dataset.compress(RLELossless)
        elif syntax.is_encapsulated:
            dataset.file_meta.TransferSyntaxUID = syntax
            ending, bits = ('.jpg', 8) if syntax is JPEGBaseline8Bit else ('.jp2', 16)
            dataset.BitsAllocated, dataset.BitsStored, dataset.HighBit = bits, bits, bits - 1
            frame = image[:, :, 0] if bits == 16 else (image[:, :, 0] >> 4).astype(np.uint8)
            frames = [cv2.imencode(ending, frame)[1].tobytes()]
            dataset.PixelData = pydicom.encaps.encapsulate(frames)
        stream = io.BytesIO()
        dataset.save_as(stream, enforce_file_format=False)
        seeds.append(stream.getvalue())
    return seeds


_COCO = {
    'images': [{'id': 1, 'file_name': 'a.jpg', 'width': 4, 'height': 4}],
    'categories': [{'id': 1, 'name': 'cat'}],
    'annotations': [{'id': 1, 'image_id': 1, 'category_id': 1, 'bbox': [0, 0, 2, 2], 'area': 4,
                     'segmentation': [[0, 0, 1, 1, 1, 0]]}],
}  # fmt: skip
_XML = (
    '<annotation><size><width>4</width><height>4</height></size><object><name>cat</name><bndbox>'
    '<xmin>1</xmin><ymin>1</ymin><xmax>3</xmax><ymax>3</ymax></bndbox></object></annotation>'
)
_LOG = '{"lr": 0.1, "loss": -0.5, "time": 0.1, "epoch": 1, "iter": 5, "step": 5}\n' * 3
_CONFIG = """_base_ = ['x.py']
train_cfg = dict(by_epoch=True, max_epochs=4)
values = [1, (2, 'a'), {'b': -1.5}]
"""
_FIGURE = [{'protocol': 'knn', 'metric': 'top-1', 'value': 1.5, 'weights_sha256': 'abcdefgh',
            'train': {'images': 3, 'fingerprint': 'abcdefgh'},
            'test': {'images': 3, 'fingerprint': 'abcdefgh'}}]  # fmt: skip
_EPOCHS = {'protocol': 'linear', 'last': {'epoch': 1, 'accuracy/top1': 1.5}, 'epochs': 1,
           'best': {'epoch': 1, 'accuracy/top1': 1.5}, 'backbone_sha256': 'abcdefgh',
           'train': {'images': 3, 'data': 'abcdefgh'},
           'val': {'images': 3, 'data': 'abcdefgh'}}  # fmt: skip


def _read_coco(path: Path) -> object:
    (path.parent / 'images').mkdir(exist_ok=True)
    return check_coco(path, path.parent / 'images', ['cat'], True)


def _read_voc(path: Path) -> object:
    for part in ('JPEGImages', 'Annotations'):
        (path.parents[1] / part).mkdir(exist_ok=True)
    names = path.parents[1] / 'list.txt'
    names.write_text('a\n')
    return check_voc(path.parents[1], names, ['cat'])


def _read_boxes(path: Path) -> object:
    """Read a dataset of which one file is damaged; its images are whole."""
    root = next(folder for folder in path.parents if folder.name == 'boxes')
    for name in ('images/a.ppm', 'images/b.ppm', 'JPEGImages/a.jpg', 'JPEGImages/b.jpg'):
        if (image := root / name).parent.is_dir():
            image.write_bytes(b'P6 4 4 255\n' + bytes(48))
    if (labels := root / 'labels').is_dir():
        (labels / 'b.txt').write_text('0 0.5 0.5 0.5 0.5\n')
        if path.name == 'data.yaml':
            (labels / 'a.txt').write_text('1 0.5 0.5 0.5 0.5\n')
        else:
            (root / 'classes.txt').write_text('cat\ndog\n')
    if (root / 'Annotations').is_dir():
        (root / 'Annotations' / 'b.xml').write_text(_XML)
    return read_data(root, say=lambda text: None)


def _boxes_of(kind: str) -> Callable[[Path], object]:
    """The same, after the folders of that kind were made."""

    def read(path: Path) -> object:
        root = next(folder for folder in path.parents if folder.name == 'boxes')
        for name in {'coco': ['images'], 'voc': ['JPEGImages'], 'yolo': ['images', 'labels']}[kind]:
            (root / name).mkdir(exist_ok=True)
        return _read_boxes(path)

    return read


def _two_images() -> bytes:
    """A COCO file with two images, so that one is left to validate on."""
    images = [{'id': n, 'file_name': f'{c}.ppm', 'width': 4, 'height': 4}
              for n, c in enumerate('ab', 1)]  # fmt: skip
    things = [{**_COCO['annotations'][0], 'id': n, 'image_id': n} for n in (1, 2)]
    things[1].update(iscrowd=0, segmentation={'size': [4, 4], 'counts': [3, 4, 9]})
    return json.dumps({**_COCO, 'images': images, 'annotations': things}).encode()


def _mask() -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.eye(4, dtype=np.uint8)).save(stream, 'PNG')
    return stream.getvalue()


def _read_masks(path: Path) -> object:
    root = next(folder for folder in path.parents if folder.name == 'masked')
    for folder in ('images', 'masks'):
        (root / folder).mkdir(exist_ok=True)
    for name in 'ab':
        (root / 'images' / f'{name}.ppm').write_bytes(b'P6 4 4 255\n' + bytes(48))
    for name in 'ab':
        (root / 'masks' / f'{name}.png').write_bytes(_mask())
    if path.name != 'classes.txt':
        (root / 'masks' / 'a.png').write_bytes(path.read_bytes())
        (root / 'classes.txt').write_text('ground\ntree\n')
    return read_masks(root, say=lambda text: None)


@cache
def _server(pid: int) -> tuple[str, list[bytes]]:
    """The address of a web server in this process, and what it answers."""
    answer = [b'']

    class Handler(BaseHTTPRequestHandler):
        protocol_version = 'HTTP/1.1'
        disable_nagle_algorithm = True  # or every answer waits 40 ms for the reader's receipt

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header('Content-Type', 'text/html')
            self.send_header('Content-Length', str(len(answer[0])))
            self.end_headers()
            if self.command == 'GET':
                self.wfile.write(answer[0])

        do_HEAD = do_GET

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f'http://127.0.0.1:{server.server_port}', answer


def _read_listing(path: Path) -> object:
    """List a folder of a web server whose pages all are this one."""
    remote.WAITS, remote.DEPTH = (), 2
    address, answer = _server(os.getpid())
    answer[0] = path.read_bytes()
    return remote_archives(f'{address}/{hashlib.sha256(answer[0]).hexdigest()}')


def _read_store_note(path: Path) -> object:
    """Open an archive of the cache by a damaged note of what the store said about it."""
    remote.WAITS = ()
    os.environ['HTTP_PROXY'] = 'http://127.0.0.1:9'  # nobody listens
    archive = place_of('http://127.0.0.1:9/a.tar')
    archive.parent.mkdir(parents=True, exist_ok=True)
    for kind in ('json', 'sha256'):
        archive.with_name(f'.{archive.name}.{kind}').write_bytes(path.read_bytes())
    archive.write_bytes(b'1234')
    os.utime(archive, ns=(0, remote_file(archive).time))
    with open_remote(archive) as file:
        return file.read()


_PAGE = '<a href="../">..</a><a href="b/">b/</a><a href="a.tar">a.tar</a><a href="?C=N">N</a>'
_NOTES = ('{"size": 4, "tag": "x", "hashes": {"md5": "81dc9bdb52d04dc20036dbd8313ed055"}}',
          '{"time": 3, "sha256": "81dc"}')  # fmt: skip
_JUDGED = ''.join(
    f'{{"loss": 1.0, "time": 0.1, "iter": {10 * n}, "step": {10 * n}}}\n'
    f'{{"judge/view_invariance": {5 + 2 * n}, "step": {10 * n}}}\n'
    for n in range(4)
)


def _forecast(path: Path) -> object:
    return forecast_run(load_run(path.parents[2]), 60)


def _read_config_text(path: Path) -> None:
    read_literals(path)
    check_bases(path)


def _read_stock_image(path: Path) -> object:
    """Mmcv's own loader, as configs of mmpretrain name it; it may fail on damage in its own way."""
    import mmcv

    try:
        return mmcv.imread(str(path))
    except UserError:
        raise
    except Exception as error:
        raise UserError(str(error)) from error


def _read_annotations(path: Path) -> object:
    from mmengine.fileio import load

    return load(path)


def _table(name: str) -> bytes:
    """A table of features in the format of its ending."""
    places, features = np.ones((2, 2)), np.eye(2, 3, dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write_table(path, ['a.jpg', 'b c.jpg'], np.ones((2, 3), int), places, features)
        return path.read_bytes()


def _read_npy(path: Path) -> object:
    path.with_suffix('.paths.txt').write_text('a.jpg\nb.jpg\n')
    return read_table(path)


def _read_image_list(path: Path) -> object:
    return read_list(path.parent, 'x')


def _read_request(path: Path) -> object:
    return RunFolder(path.parents[1]).state(Request(('photos',)))


def all_readers() -> list[Reader]:
    """Every reader of files that may come from a stranger."""
    safetensors = save(_state(), metadata={'a': 'b'})
    return [
        Reader('pth', _torch_seeds(True), load_backbone_state, 'a.pth'),
        Reader('pth inside', _descriptions(), _read_description, 'a.pkl'),
        Reader('legacy', _torch_seeds(False), load_backbone_state, 'a.pth'),
        Reader('pkl', _pickle_seeds(), load_backbone_state, 'a.pkl'),
        Reader('safetensors', [safetensors], load_backbone_state, 'a.safetensors'),
        Reader('onnx', _onnx_seeds(), load_backbone_state, 'a.onnx'),
        Reader('sealed', [_written(_checkpoint)], verify, 'a.pth'),
        Reader('features', [_written(_features)], read_features, 'a.safetensors'),
        Reader('features 2', [_written(_features)], _read_sealed_features, 'a.safetensors'),
        Reader('tar', _shard_seeds('tar'), _read_shard, 'a.tar'),
        Reader('zip', _shard_seeds('zip'), _read_shard, 'a.zip'),
        Reader('shard', [_written(_parquet_shard)], _read_shard, 'a.parquet'),
        Reader('image', _image_seeds(), decode_image, 'a.jpg'),
        *(Reader(f'deep {kind}', _deep_seeds(kind), read_bands, f'a.{kind}')
          for kind in ('tiff', 'dicom', 'npy', 'png')),
        Reader('stock image', _image_seeds(), _read_stock_image, 'a.jpg'),
        Reader('names', [b'a.jpg\nb/c.jpg\r\nd e.png\n'], lambda p: list(NameList(p)), 'a.txt'),
        Reader('npy', [_table('a.npy')], _read_npy, 'a.npy'),
        Reader('csv', [_table('a.csv')], read_table, 'a.csv'),
        Reader('parquet', [_table('a.parquet')], read_table, 'a.parquet'),
        Reader('image list', [gzip.compress(b'a.jpg\nb/c.jpg\n')], _read_image_list,
               list_path(Path(), 'x').name),
        Reader('request', [b'{"images": ["photos"], "ranks": 1, "epochs": null}'],
               _read_request, 'plan/request.json'),
        Reader('manifest', [MANIFEST.read_bytes()], read_manifest, 'manifest.json'),
        Reader('pins', [b'{"unhashed-1": {"size": 3, "sha256": "ab"}}'],
               lambda p: _read_pins(p.parent), 'pins.json'),
        Reader('log', [_LOG.encode()], lambda p: load_run(p.parents[2]).status,
               'run/1/vis_data/scalars.json'),
        Reader('results', [json.dumps(c).encode() for c in (_FIGURE, _EPOCHS, {'coco/AP': 0.5})],
               read_results, 'run/1/results.json'),
        Reader('lock', [_LOCK.encode()], _read_lock, work_dir_lock.NAME),
        Reader('config', [_CONFIG.encode()], _read_config_text, 'a.py'),
        Reader('coco', [json.dumps(_COCO).encode()], _read_coco, 'a.json'),
        Reader('voc', [_XML.encode()], _read_voc, 'Annotations/a.xml'),
        Reader('network', _network_seeds(), _read_network, 'a.pkl'),
        Reader('coco boxes', [_two_images()], _boxes_of('coco'), 'boxes/annotations/a.json'),
        Reader('voc boxes', [_XML.encode()], _boxes_of('voc'), 'boxes/Annotations/a.xml'),
        Reader('yolo boxes', [b'0 0.5 0.5 0.5 0.5\n1 0.1 0.1 0.9 0.1 0.9 0.9 0.1 0.9\n'],
               _boxes_of('yolo'), 'boxes/labels/a.txt'),
        Reader('yolo names', [b"nc: 2\nnames: ['cat', dog]\n", b'names:\n 0: cat # x\n 1: dog\n'],
               _boxes_of('yolo'), 'boxes/data.yaml'),
        Reader('mask', [_mask()], _read_masks, 'masked/a.png'),
        Reader('mask names', [b'ground\ntree\n'], _read_masks, 'masked/classes.txt'),
        Reader('listing', [_PAGE.encode()], _read_listing, 'page.html'),
        Reader('store note', [note.encode() for note in _NOTES], _read_store_note, 'note.json'),
        Reader('forecast', [_JUDGED.encode()], _forecast, 'run/1/vis_data/scalars.json'),
        Reader('yaml', [b'a: [1, 2.5, x]\nb: {c: &d null, e: *d}\n'], _read_annotations, 'a.yaml'),
        Reader('json', [json.dumps(_COCO).encode()], _read_annotations, 'a.json'),
    ]  # fmt: skip


if __name__ == '__main__':
    sys.exit(main())
