"""What judging without labels costs: its share of the time of a run of `ttl train`'s recipe.

    OMP_NUM_THREADS=1 python tools/benchmarks/bench_judge.py IMAGES [--steps 600] [--workers 1]

Trains a small network by the recipe's hooks on the views of the recipe, at 32 px, and prints the
seconds that JudgeHook logs, those of the whole run, and their ratio. Exits with 1 above 1 %.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import ttl_mm.engine  # isort: skip  # noqa: F401
from mmengine.registry import RUNNERS

from ttl_mm.config import read_config
from ttl_mm.planning.train_config import read_train_recipe

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 0.01


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('images', type=Path)
    parser.add_argument('--steps', type=int, default=600)
    parser.add_argument('--workers', type=int, default=1)
    args = parser.parse_args()
    cfg = read_config(ROOT / 'projects/efficiency_study/configs/ttl_direct.py')
    cfg.train_dataloader.dataset.data_root = str(args.images)
    cfg.train_dataloader.num_workers = args.workers
    cfg.train_dataloader.persistent_workers = args.workers > 0
    cfg.train_cfg = {'type': 'ttl_mm.IterLoop', 'max_iters': args.steps}
    cfg.param_scheduler = []
    hooks = cfg.default_hooks
    hooks.update(gauges=None, probe=None, judge=read_train_recipe().default_hooks.judge)
    hooks.checkpoint = {'type': 'ttl_mm.CheckpointHook', 'save_last': False}
    cfg.log_level = 'ERROR'
    with tempfile.TemporaryDirectory() as work_dir:
        cfg.work_dir = work_dir
        runner = RUNNERS.build(cfg)
        began = time.perf_counter()
        runner.train()
        whole = time.perf_counter() - began
        (log,) = Path(work_dir).glob('*/vis_data/scalars.json')
        lines = [json.loads(line) for line in log.read_text().splitlines()]
    judged = [line for line in lines if 'judge/seconds' in line]
    spent = judged[-1]['judge/seconds'] if judged else 0.0
    print(f'{args.steps} steps in {whole:.1f} s, judged at {[line["iter"] for line in judged]}')
    print(f'judging: {spent:.2f} s, {spent / whole:.2%} of the run (limit: {LIMIT:.0%})')
    sys.exit(spent > LIMIT * whole)


if __name__ == '__main__':
    main()
