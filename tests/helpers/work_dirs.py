"""Work dirs as mmengine writes them, for the tests of the report."""

import json
from pathlib import Path

EPOCH = 20  # iterations
CONFIG = """train_cfg = dict(by_epoch=True, max_epochs=4)
train_dataloader = dict(
    batch_size=8,
    dataset=dict(type='ImageFolder', scale=float('inf')))
"""


def write_start(
    work_dir: Path, timestamp: str, first: int, last: int, probes: bool = True,
    loss=lambda iteration: -iteration / 100, accuracy=float, devices: int = 1, gpu: bool = False,
) -> Path:  # fmt: skip
    """One start of a run from iteration ``first`` to ``last``, logged every five iterations."""
    data = work_dir / timestamp / 'vis_data'
    data.mkdir(parents=True)
    (data / 'config.py').write_text(CONFIG)
    environment = f'    CUDA available: {gpu}\n    GPU number: {devices}\n'
    (work_dir / timestamp / f'{timestamp}.log').write_text(environment)
    lines = []
    for iteration in range(first, last + 1):
        epoch = (iteration - 1) // EPOCH + 1
        if iteration % 5 == 0:
            place = dict(epoch=epoch, iter=iteration, step=iteration)
            lines.append(dict(lr=0.1, time=0.5, loss=loss(iteration)) | place)
        if probes and iteration % EPOCH == 0:
            lines.append({'probe/knn_top1': accuracy(iteration), 'step': epoch})
    (data / 'scalars.json').write_text('\n'.join(map(json.dumps, lines)) + '\n')
    return work_dir
