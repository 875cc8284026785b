"""The compiled ops of mmcv on the device, against what they must give."""

from typing import Any

import torch
from mmengine.device import get_device

#: x1, y1, x2, y2: the second overlaps the first by 81 %, the third is apart
BOXES = [[0.0, 0.0, 10.0, 10.0], [0.5, 0.5, 10.0, 10.0], [20.0, 20.0, 30.0, 30.0]]
SCORES = [0.9, 0.8, 0.7]


def measure_ops() -> dict[str, Any]:
    """What is wrong with nms and roi_align on this device; 'missing' if they were not compiled."""
    device = get_device()
    try:
        from mmcv import ops
    except (ImportError, OSError) as error:
        return {'device': device, 'missing': f'mmcv has no compiled ops ({error})'}
    cuda = ops.get_compiling_cuda_version()
    built_for = 'CPUs alone' if cuda == 'not available' else f'CUDA {cuda}'
    result = {'device': device, 'built_for': built_for}
    try:
        _, kept = ops.nms(
            torch.tensor(BOXES, device=device), torch.tensor(SCORES, device=device), 0.5
        )
        # the mean of a plane that grows by 1 per column is its value in the middle
        plane = torch.arange(16.0, device=device).expand(1, 1, 16, 16).contiguous()
        box = torch.tensor([[0.0, 2.0, 2.0, 10.0, 10.0]], device=device)
        mean = ops.roi_align(plane, box, (1, 1), 1.0, 0, 'avg', True)
    except (RuntimeError, NotImplementedError) as error:
        return {**result, 'wrong': str(error).strip().splitlines()[0]}
    if kept.tolist() != [0, 2]:
        return {**result, 'wrong': f'nms kept the boxes {kept.tolist()} and not [0, 2]'}
    if abs(mean.item() - 5.5) > 1e-4:
        return {**result, 'wrong': f'roi_align gives {mean.item():g} and not 5.5'}
    return result
