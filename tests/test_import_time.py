import subprocess
import sys
import time


def fastest(code, repeats=3):
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        subprocess.run([sys.executable, '-c', code], check=True)
        times.append(time.perf_counter() - started)
    return min(times)


def test_package_import_adds_less_than_300_ms():
    assert fastest('import ttl_mm') - fastest('pass') < 0.3


def test_evaluation_is_imported_without_the_frameworks_and_in_silence():
    """Classifiers and metrics work on arrays. mmpretrain costs seconds and prints a line."""
    code = (
        'import sys, ttl_mm.evaluation\n'
        "assert not {'mmcv', 'mmpretrain', 'mmdet'} & sys.modules.keys()\n"
    )
    run = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert run.stdout + run.stderr == ''
