"""What watches over a run, one concern a file.

Before the first step, by PreflightHook: ``data_size``, ``accumulation``, ``negatives``,
``neck_width``, ``memory_bank``, ``pretrained``, ``target_update``.
While training: ``finite``, ``collapse``, ``bad_images``, ``preemption``, ``stall``.
"""
