"""A model with every kind of state and randomness that a resume could lose."""

import random

import numpy as np
import torch
from mmengine.model import BaseModel, ExponentialMovingAverage
from mmengine.registry import MODELS
from torch import nn


@MODELS.register_module()
class ToyModel(BaseModel):
    """BatchNorm, dropout, a target network, and draws from torch, NumPy and Python."""

    def __init__(self, sync_bn: bool = False, init_cfg: dict | None = None) -> None:
        super().__init__(init_cfg=init_cfg)
        norm = nn.SyncBatchNorm if sync_bn else nn.BatchNorm1d
        self.backbone = nn.Sequential(
            nn.Flatten(), nn.Linear(192, 8), norm(8), nn.ReLU(), nn.Dropout(0.3)
        )
        self.neck = nn.Linear(8, 6)
        self.target = ExponentialMovingAverage(nn.Sequential(self.backbone, self.neck), 0.1)

    def forward(self, inputs, data_samples=None, mode='loss'):
        if mode == 'predict':
            return [self.neck(self.backbone(inputs.float() / 255)).mean().item()]
        first, second = (torch.stack(list(view)).float() / 255 for view in inputs)
        second = second * np.random.uniform(0.8, 1.2) + random.random() * 0.1
        second = second + 0.01 * torch.randn_like(second)
        with torch.no_grad():
            self.target.update_parameters(nn.Sequential(self.backbone, self.neck))
            goal = self.target(second)
        return {'loss': (self.neck(self.backbone(first)) - goal - 1).square().mean()}
