"""Optimizer and learning rate by the kind of network.

A network with BatchNorm (ResNet, RegNet, EfficientNet, MobileNet) keeps the optimizer of the
recipe, Muon, SGD or LARS. One with LayerNorm (ViT, Swin, ConvNeXt), with BatchNorm beside LayerNorm
or attention (MobileViT, MaxViT, LeViT, whose authors take AdamW too), or without norms gets AdamW:

- the rate, 5e-4 for 256 images, is that of DINO for ViT (Caron et al., 2021);
- the decay, 0.05, is that of Swin (Liu et al., 2021) and ConvNeXt (Liu et al., 2022);
- biases and the scales of norms are not decayed, as in DINO and Swin.
"""

from typing import Any, NamedTuple


class Choice(NamedTuple):
    """An optimizer; its rate is for 256 images."""

    optimizer: str
    lr: float
    weight_decay: float


IMAGES = 256
ADAMW = Choice('AdamW', lr=5e-4, weight_decay=0.05)
#: norm of the network to its optimizer; None keeps that of the recipe
OPTIMIZERS: dict[str, Choice | None] = {
    'batch': None, 'layer': ADAMW, 'both': ADAMW, 'none': ADAMW,
}  # fmt: skip


def set_optimizer(wrapper: Any, norm: str, images: int) -> None:
    """Give ``optim_wrapper`` of a config the optimizer of a network, for steps of ``images``."""
    choice = OPTIMIZERS[norm]
    if choice is None:
        return
    wrapper.optimizer = {
        'type': choice.optimizer,
        'lr': choice.lr * images / IMAGES,
        'weight_decay': choice.weight_decay,
    }
    wrapper.paramwise_cfg = {'norm_decay_mult': 0.0, 'bias_decay_mult': 0.0}
