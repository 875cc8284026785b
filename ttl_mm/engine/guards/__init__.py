"""What watches over a run, one concern a file.

Before the first step, by PreflightHook in ``preflight``: ``data_size``, ``accumulation``,
``batch_size``, ``neck_width``, ``view_sizes``, ``negatives``, ``memory_bank``, ``pretrained``,
``pixels``, ``target_update``.
While training: ``finite``, ``collapse``, ``symptoms``, ``bad_images``, ``preemption``, ``stall``.
"""
