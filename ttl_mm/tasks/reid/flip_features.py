"""A backbone as a model of features: what re-identification is evaluated with."""

import torch
from mmengine.model import BaseModel
from mmpretrain.registry import MODELS as MMPRETRAIN_MODELS
from torch import Tensor, nn
from torch.nn.functional import normalize

from ttl_mm.registry import MODELS


def combine_flip(features: Tensor, mirrored: Tensor, reference_flip: bool = False) -> Tensor:
    """Join features (N, D) of images and of their mirror images to unit vectors (N, D).

    With n(x) = x / |x|: n(f + m). ``reference_flip`` gives n(n(f) + m), the computation of the
    SYSU-30k release, where the longer mirrored feature outweighs the normalised first one.
    """
    if reference_flip:
        features = normalize(features, dim=1)
    return normalize(features + mirrored, dim=1)


@MODELS.register_module()
class FlipFeatures(BaseModel):
    """Unit-length features (N, D) of the last stage, averaged over space, image and mirror image.

    Args:
        backbone: mmpretrain's ResNet or the like, or its config.
        reference_flip: The weighting of the SYSU-30k release, see :func:`combine_flip`.
        data_preprocessor: Config of mmpretrain's ``ClsDataPreprocessor``.
    """

    def __init__(
        self,
        backbone: nn.Module | dict,
        reference_flip: bool = False,
        data_preprocessor: dict | None = None,
        init_cfg: dict | None = None,
    ) -> None:
        super().__init__(data_preprocessor, init_cfg)
        is_config = isinstance(backbone, dict)
        self.backbone = MMPRETRAIN_MODELS.build(backbone) if is_config else backbone
        self.out_indices = (3,)  # as a backbone would say it: the fourth stage
        self.reference_flip = reference_flip

    def pool(self, inputs: Tensor) -> Tensor:
        """Images (N, 3, H, W) to features (N, D)."""
        return self.backbone(inputs)[-1].mean(dim=(2, 3))

    def forward(self, inputs: Tensor, data_samples: list | None = None, mode: str = 'tensor'):
        """Features for mode 'tensor'; for 'predict' the samples, each with its ``feature``."""
        if mode == 'loss':
            raise RuntimeError('FlipFeatures is for evaluation: it has no loss.')
        features = combine_flip(
            self.pool(inputs), self.pool(inputs.flip(-1)), self.reference_flip
        ).float()
        if mode == 'tensor':
            return features
        for sample, feature in zip(data_samples, torch.unbind(features)):
            sample.set_field(feature, 'feature')
        return data_samples
