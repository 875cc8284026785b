"""The shared head of a C4 detector, applied to every region."""

from typing import Any

from mmcv.cnn import build_norm_layer
from mmengine.model import BaseModule
from mmpretrain.models.backbones import ResNet
from torch import Tensor

from ttl_mm.registry import MODELS


@MODELS.register_module()
class Res5(BaseModule):
    """The last stage of a ResNet, followed by a norm.

    Boxes and masks are predicted from its output. Its tensors are named ``layer4.*`` as in the
    backbone, so that they can be loaded from a pre-training checkpoint, which has no counterpart
    of the norm. mmpretrain's ``ResLayerExtraNorm`` is the same for ResNets of standard width.

    Args:
        depth: Depth of the ResNet.
        norm_cfg: Config of all norms.
        init_cfg: ``ttl_mm.PretrainedBackbone`` with ``fresh=['norm.']``; None for random weights.
        kwargs: Options of mmpretrain's ``ResNet``, such as ``base_channels=16``.
    """

    def __init__(
        self,
        depth: int = 50,
        norm_cfg: dict[str, Any] | None = None,
        init_cfg: dict[str, Any] | list | None = None,
        **kwargs: Any,
    ) -> None:
        kaiming = dict(type='Kaiming', layer='Conv2d')
        super().__init__(init_cfg or [kaiming, dict(type='Constant', val=1, layer='_BatchNorm')])
        norm_cfg = norm_cfg or dict(type='BN')
        whole = ResNet(depth, norm_cfg=norm_cfg, **kwargs)
        self.layer4 = whole.layer4
        self.norm = build_norm_layer(norm_cfg, whole.feat_dim)[1]

    def forward(self, regions: Tensor) -> Tensor:
        """Map features of regions (R, C, 14, 14) to (R, 2 C, 7, 7)."""
        return self.norm(self.layer4(regions))
