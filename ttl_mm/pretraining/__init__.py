"""The whole job of ``ttl train``: images in, backbone and report out.

``plan`` looks at images and machine and tries a few steps; ``run_folder`` knows whether a folder is
new, interrupted or finished; ``close`` writes what a finished run leaves behind. Training itself is
:mod:`ttl_mm.engine.runner.processes`, the launcher of every run.
"""

from ttl_mm.engine.runner.processes import RunEndedError
from ttl_mm.pretraining.job import Pretrained, pretrain

__all__ = ['Pretrained', 'RunEndedError', 'pretrain']
