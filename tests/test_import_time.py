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
