"""Images to batches: datasets, transforms, samplers."""

import ttl_mm.registry  # noqa: F401  isort: skip
from ttl_mm.datasets.decode import BadImageError, decode_image
from ttl_mm.datasets.digits import Digits
from ttl_mm.datasets.image_folder import ImageFolder
from ttl_mm.datasets.load_image import LoadImage
from ttl_mm.datasets.part import Fraction
from ttl_mm.datasets.sampler import EpochSampler
from ttl_mm.datasets.views import RandomViews

__all__ = [
    'BadImageError',
    'Digits',
    'EpochSampler',
    'Fraction',
    'ImageFolder',
    'LoadImage',
    'RandomViews',
    'decode_image',
]
