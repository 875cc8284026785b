"""Images to batches: datasets, transforms, samplers.

The way of an index to a batch in training (a :class:`SampleIndex` carries seed and epoch):

1. ``sampler.EpochSampler`` yields ``SampleIndex(index, epoch, seed)`` for this rank, in the order
   of ``epoch_order.EpochOrder``.
2. ``train_loader.EpochBatches`` groups them, from any image of the epoch on, and gives seed and
   epoch to the indices of other samplers. The loop sets its position (``ttl_mm.engine.runner``).
3. In a worker, ``train_samples.TrainSamples`` seeds the global generators for the index, reads the
   sample from the dataset, and replaces a bad image. ``part.Part`` passes the position in its inner
   dataset on; the draws still follow the position in the outermost one.
4. The pipeline begins with ``train_samples.ProvideRng``, which adds ``results['rng']``, made by
   ``SampleIndex.rng``. ``views.RandomViews`` draws from it (``view_params``), decodes the file
   (``decode``) and renders the views (``color``).
5. ``train_samples.Collate`` joins the samples to a ``Batch`` and adds the list of skipped images.

Archives of images are read as folders (``ttl_mm.files.archives``); ``archive_labels`` finds their
labels. Those in a store are fetched before they are read: ``read_ahead`` tells which come next.

Images beyond 8-bit RGB, of other channels or depth, take another way through step 4: ``bands``
reads and scales them, ``float_color`` has the operations of their views.

``RandomViews(in_memory=True)`` takes another way from step 3 on: ``train_samples.TrainBatches``
asks ``images_in_memory`` for whole batches, whose views ``batch_views`` makes at once.

``view_sheet`` takes steps 3 and 4, so ``ttl views`` shows what training sees. ``folder_scan`` and
``name_list`` find the files of ``image_folder.ImageFolder``, ``permutation`` shuffles them.
"""

# ruff: noqa: E402  (mmpretrain is imported quietly before our parts)
import ttl_mm.registry  # noqa: F401  isort: skip
from ttl_mm.compat.quiet_imports import import_quietly  # isort: skip

import_quietly('mmpretrain.datasets')

from ttl_mm.datasets.decode import BadImageError, LoadImage, decode_image
from ttl_mm.datasets.digit_scenes import DigitScenes
from ttl_mm.datasets.digits import Digits
from ttl_mm.datasets.image_folder import ImageFolder, TarShards
from ttl_mm.datasets.part import Fraction
from ttl_mm.datasets.sampler import EpochSampler
from ttl_mm.datasets.views import LoadBands, RandomViews

__all__ = [
    'BadImageError',
    'DigitScenes',
    'Digits',
    'EpochSampler',
    'Fraction',
    'ImageFolder',
    'LoadBands',
    'LoadImage',
    'RandomViews',
    'TarShards',
    'decode_image',
]
