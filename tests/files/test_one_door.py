"""Nothing outside of ``ttl_mm.files`` opens a file to read it: this walks the source for it."""

import ast
from collections.abc import Iterator

from tests.helpers.paths import ROOT

# calls that read a file by its name or make objects of its content, whatever they are called on
READS = {
    'ElementTree', 'GzipFile', 'TarFile', 'Unpickler', 'ZipFile', 'eval', 'exec', 'from_file',
    'fromfile', 'full_load', 'genfromtxt', 'imread', 'load', 'load_file', 'loads', 'loadtxt',
    'memmap', 'mmap', 'open', 'parse', 'read_bytes', 'read_csv', 'read_image', 'read_parquet',
    'read_table', 'read_text', 'run_path', 'safe_load', 'safe_open', 'unsafe_load',
}  # fmt: skip
METHODS = {'eval', 'exec'}  # of networks and the like
OURS = {'read_bytes', 'read_text', 'read_table', 'parse'}  # functions that we have too
# Where something is read in another way, and why: no file of a stranger, or it went through the
# door before. A new row needs a reason of this kind.
ALLOWED = {
    'checkpoint/sealed.py os.open': 'a folder, to make its names survive a power cut',
    'ending.py os.open': 'the device that takes everything, to write',
    'config.py Config.fromfile': 'a regular file; a config is Python and runs',
    'config.py ast.parse': 'a text',
    'datasets/image_list.py gzip.GzipFile': 'an open file, or one to write',
    'datasets/images_in_memory.py mmap.mmap': 'memory without a file, which processes share',
    'datasets/decode.py exif.load': 'bytes of an image, and any error of it is caught',
    'engine/state/work_dir_lock.py os.open': 'to write',
    'evaluation/feature_file.py np.memmap': 'an open file, after its sizes were compared',
    'evaluation/feature_file.py open': 'the partial file that it writes',
    'evaluation/feature_file.py os.open': 'to write',
    'explore/map_page.py .read_text': 'a template of the package',
    'export/library_formats.py onnx.load': 'the graph that torch has just written',
    'models/libraries.py Config.fromfile': 'a config of mmpretrain',
    'planning/config.py Config.fromfile': 'a recipe, which is Python and runs',
    'planning/memory.py Config.fromfile': 'a recipe, which is Python and runs',
    'report/dumped_config.py ast.parse': 'a text',
    'report/html.py .read_text': 'a template of the package',
    'report/paper.py .read_text': 'a table of the package',
    'selftest/part_checks.py Config.fromfile': 'a config that the self-test wrote',
    'selftest/ranks.py Config.fromfile': 'a config that the self-test wrote',
    'tasks/detection/render_hook.py mmcv.imread': 'looks at the header first, see compat',
    'zoo/transfer.py opener.open': 'an address',
    'zoo/transfer.py part.open': 'the partial file that it writes',
}


def reads(source: str) -> Iterator[str]:
    """Every call that may read a file, by the name of its function and of what that is part of."""
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        function = call.func
        if isinstance(function, ast.Name) and function.id in READS - OURS:
            if function.id != 'open' or _mode(call, 1) in ['r', 'rb', 'rt', 'r+b', 'r+']:
                yield function.id
        elif isinstance(function, ast.Attribute) and function.attr in READS - METHODS:
            owner = function.value.id if isinstance(function.value, ast.Name) else ''
            if function.attr != 'open' or _mode(call, 0)[:1] not in ('w', 'x', 'a'):
                yield f'{owner}.{function.attr}'


def _mode(call: ast.Call, place: int) -> str:
    """The mode of a call of ``open``; '?' if it is not written out."""
    named = [k.value for k in call.keywords if k.arg == 'mode']
    given = (named or call.args[place : place + 1] or [ast.Constant('r')])[0]
    return given.value if isinstance(given, ast.Constant) else '?'


def test_files_are_read_through_the_one_door():
    package, found = ROOT / 'ttl_mm', set()
    for path in sorted(package.rglob('*.py')):
        name = str(path.relative_to(package))
        if not name.startswith('files/'):
            found |= {f'{name} {call}' for call in reads(path.read_text())}
    assert found == ALLOWED.keys()


def test_the_walk_sees_every_way_to_read():
    bad = """
open(path); open(path, 'rb'); open(path, mode='r'); path.open(); Path(p).read_text()
path.read_bytes(); json.load(file); json.loads(text); torch.load(path); np.load(path)
yaml.load(text); pickle.loads(data); Image.open(path); gzip.open(path); np.fromfile(path)
cv2.imread(path); os.open(path, flags); zipfile.ZipFile(path); eval(text); onnx.load(path)
"""
    calls = bad.replace('\n', ';').count('(') - 1  # Path(p) is none
    assert len(list(reads(bad))) == calls
    good = "open(path, 'w'); path.open('wb'); read_text(path); read_bytes(path); parse_json(text)"
    assert list(reads(good)) == []
