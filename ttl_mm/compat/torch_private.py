"""Private functions of torch, all in one place.

``torch._foreach_*`` treats a list of tensors in one kernel. ``torch.optim`` is built on them, and
there is no public spelling; a test compares each with a loop over the tensors.
"""

import torch
from torch.nn.modules.batchnorm import _BatchNorm

foreach_add = torch._foreach_add
foreach_add_ = torch._foreach_add_
foreach_lerp_ = torch._foreach_lerp_
foreach_mul_ = torch._foreach_mul_
foreach_norm = torch._foreach_norm
foreach_sub_ = torch._foreach_sub_

BatchNorm = _BatchNorm  # the common base of BatchNorm1d to 3d and SyncBatchNorm
