"""A fully convolutional network on a dilated ResNet."""

from collections.abc import Sequence
from typing import Any

import torch
from mmcv.cnn import build_norm_layer
from mmengine.model import BaseModel
from torch import Tensor, nn
from torch.nn import functional

from ttl_mm.registry import MODELS

IGNORED = 255  # the value of pixels that belong to no class


@MODELS.register_module()
class FCN(BaseModel):
    """Classes of pixels: two dilated 3 x 3 convolutions and a linear layer on the last stage.

    The backbone has stride 16: its last stage dilates instead of striding. Scores are enlarged to
    the image. It is the model by which MoCo's authors compare self-supervised weights on VOC and
    Cityscapes.

    Args:
        backbone: A config; it returns one map.
        in_channels: Channels of the map.
        num_classes: How many classes a pixel can have.
        channels: Of the two convolutions.
        dilation: Of the two convolutions.
        norm_cfg: Of their norms.
        data_preprocessor: A config.
    """

    def __init__(
        self,
        backbone: dict,
        in_channels: int,
        num_classes: int,
        channels: int = 256,
        dilation: int = 6,
        norm_cfg: dict | None = None,
        data_preprocessor: dict | None = None,
        init_cfg: Any = None,
    ) -> None:
        super().__init__(data_preprocessor, init_cfg)
        self.backbone = MODELS.build(backbone)
        layers: list[nn.Module] = []
        for width in (in_channels, channels):
            layers += [
                nn.Conv2d(width, channels, 3, padding=dilation, dilation=dilation, bias=False),
                build_norm_layer(norm_cfg or {'type': 'BN'}, channels)[1],
                nn.ReLU(inplace=True),
            ]
        self.head = nn.Sequential(*layers, nn.Conv2d(channels, num_classes, 1))

    def scores(self, images: Tensor) -> Tensor:
        """(N, 3, H, W) to (N, classes, H, W)."""
        (features,) = self.backbone(images)
        size = images.shape[-2:]
        return functional.interpolate(
            self.head(features), size=size, mode='bilinear', align_corners=False
        )

    def forward(
        self, inputs: Tensor, data_samples: Sequence[Any] | None = None, mode: str = 'tensor'
    ) -> Any:
        """Scores ('tensor'), the loss ('loss') or the samples with their classes ('predict')."""
        scores = self.scores(inputs)
        if mode == 'loss':
            truth = torch.stack([s.mask for s in data_samples or ()]).to(scores.device)
            return {'loss': functional.cross_entropy(scores, truth, ignore_index=IGNORED)}
        if mode == 'predict':
            for sample, found in zip(data_samples or (), scores.argmax(1)):
                height, width = sample.size
                sample.set_field(found[:height, :width].cpu(), 'found')
            return data_samples
        return scores
