"""What ``ttl demo`` learns: kNN during its run as its log has it, and what it prints at the end.

    OMP_NUM_THREADS=1 python tools/benchmarks/bench_demo.py

Runs the command in a new folder, some minutes on a core. Exits with 1 if the trained features are
not better than raw pixels and than the untrained network.
"""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.figures import markdown
from ttl_mm.report.logs import load_run


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        began = time.perf_counter()
        command = [sys.executable, '-m', 'ttl_mm', 'demo', '--out', name]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        seconds = time.perf_counter() - began
        run = load_run(name)
    iterations, values = run.series('probe/knn_top1')
    epochs = (f'{epoch:.0f}' for epoch in run.epochs(iterations))
    print(markdown(['epoch', *epochs], [['kNN top-1, %', *(f'{v:.1f}' for v in values)]]))
    print(f'\nAt the end, after {seconds:.0f} s with the page:\n')
    header, *rows = (re.split(' {2,}', line.strip()) for line in done.stdout.splitlines()[-4:-1])
    print(markdown(['', *header], rows))
    return int(any(float(row[3]) <= max(map(float, row[1:3])) for row in rows))


if __name__ == '__main__':
    sys.exit(main())
