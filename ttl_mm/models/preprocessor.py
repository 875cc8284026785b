"""Normalization of images with any number of channels."""

from collections.abc import Sequence

import torch

from ttl_mm.compat.mmpretrain_models import SelfSupDataPreprocessor
from ttl_mm.errors import UserError
from ttl_mm.registry import MODELS


@MODELS.register_module()
class BandsPreprocessor(SelfSupDataPreprocessor):
    """As mmpretrain's, which takes one or three channels, for any number of them.

    Args:
        mean: Of every channel, in the scale of the views.
        std: Of every channel.
        to_rgb: Whether three channels come as BGR and go on as RGB.
    """

    def __init__(
        self, mean: Sequence[float], std: Sequence[float], to_rgb: bool = False, **options
    ) -> None:
        if not mean or len(mean) != len(std) or (to_rgb and len(mean) != 3):
            raise UserError(
                f'a preprocessor with {len(mean)} means and {len(std)} deviations, {to_rgb=}: give '
                'one of each for every channel, and to_rgb for three channels alone.'
            )
        super().__init__(to_rgb=to_rgb, **options)
        self._enable_normalize = True
        for name, values in (('mean', mean), ('std', std)):
            tensor = torch.tensor(values, dtype=torch.float32).view(-1, 1, 1)
            self.register_buffer(name, tensor, False)
