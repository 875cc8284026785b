"""One feature of an image and its mirror image: what re-identification ranks by."""

from torch import Tensor, nn
from torch.nn.functional import normalize


def combine_flip(features: Tensor, mirrored: Tensor, reference_flip: bool = False) -> Tensor:
    """Combine features (N, D) of images and of their mirror images into unit vectors (N, D).

    With f and m for the two and n(x) = x / |x|, the result is n(f + m). ``reference_flip`` gives
    n(n(f) + m) instead, as the SYSU-30k release computes it: there m, usually longer than n(f),
    has the larger weight.
    """
    if reference_flip:
        features = normalize(features, dim=1)
    return normalize(features + mirrored, dim=1)


class FlipFeatures(nn.Module):
    """A backbone that maps images to unit features of each image and its mirror image.

    Args:
        backbone: Returns feature maps, as mmpretrain's ResNet does; the last one is averaged.
        reference_flip: See :func:`combine_flip`.
    """

    out_indices = (3,)  # the fourth stage, in the terms of mmpretrain's backbones

    def __init__(self, backbone: nn.Module, reference_flip: bool = False) -> None:
        super().__init__()
        self.backbone, self.reference_flip = backbone, reference_flip

    def forward(self, images: Tensor) -> Tensor:
        """Images (N, 3, H, W) to features (N, D)."""
        features, mirrored = (
            self.backbone(x)[-1].mean(dim=(2, 3)) for x in (images, images.flip(-1))
        )
        return combine_flip(features, mirrored, self.reference_flip).float()
