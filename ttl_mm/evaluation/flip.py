"""One feature from the image and its mirror image."""

from torch import Tensor
from torch.nn.functional import normalize


def combine_flip(features: Tensor, mirrored: Tensor, reference_flip: bool = False) -> Tensor:
    """Join features (N, D) of images and of their mirror images to unit vectors (N, D).

    With n(x) = x / |x|: n(f + m). ``reference_flip`` gives n(n(f) + m), the computation of the
    SYSU-30k release, where the longer mirrored feature outweighs the normalised first one.
    """
    if reference_flip:
        features = normalize(features, dim=1)
    return normalize(features + mirrored, dim=1)
