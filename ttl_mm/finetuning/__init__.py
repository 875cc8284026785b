"""What all jobs share that train from given weights: their runs, files, options and pages.

A task says what is trained and how it is tested (:class:`ttl_mm.finetuning.job.Task`). The rest is
the same for classifiers, detectors and segmentation networks: a run from the weights and one from
random weights under the same budget, each continued where it was interrupted; a file with the
network at the end; a table, a verdict and a page.
"""
