"""The algorithm: one or two networks, the random rescale, and the symmetric loss."""

from copy import deepcopy
from itertools import groupby
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from mmengine.logging import print_log
from torch import Tensor, nn

from ttl_mm.compat.mmpretrain_models import BaseSelfSupervisor
from ttl_mm.compat.quiet_logging import quiet_outside_runs
from ttl_mm.compat.torch_private import foreach_lerp_
from ttl_mm.errors import UserError, refuse_options
from ttl_mm.models.adapted_backbone import AdaptedBackbone
from ttl_mm.models.backbones import find_backbone
from ttl_mm.models.view_sizes import ViewSizes
from ttl_mm.registry import MODELS

SizeRange = tuple[int, int]
NUM_TARGETS = 2  # the large crops; each is predicted from every other view
ADD_THE_HOOK = (
    'Add to the config, with the epochs of the whole schedule:\n'
    "default_hooks = dict(target_update=dict(type='ttl_mm.TargetUpdateHook', horizon_epochs=200))"
)
_OLD_OPTIONS = {
    'base_momentum': "write target_momentum, the share that the target keeps; mmpretrain's "
    'base_momentum is the share it gives up.',
    'pretrained': "write init_cfg=dict(type='Pretrained', checkpoint=FILE).",
}


def draw_sizes(seed: int, iteration: int, ranges: list[SizeRange | None]) -> list[int | None]:
    """One size from each inclusive range, the same in every process and after a resume.

    >>> draw_sizes(seed=0, iteration=7, ranges=[(96, 224), (128, 224)])
    [198, 131]
    """
    rng = np.random.default_rng((seed, iteration))
    return [int(rng.integers(*sizes, endpoint=True)) if sizes else None for sizes in ranges]


def rescale(images: Tensor, size: int | None) -> Tensor:
    """Resize (N, C, H, W) to squares, bilinear without antialiasing; None leaves them alone."""
    if size is None or images.shape[-2:] == (size, size):
        return images
    return F.interpolate(images, size=(size, size), mode='bilinear', align_corners=False)


@MODELS.register_module()
class TTLAlgorithm(BaseSelfSupervisor):
    """Truncated triplet learning, with a momentum target or without a target network.

    The online network (backbone, neck, predictor of the head) predicts from every view the
    projection that the target network gives to another view. The first two views are targets:

        L = Σ_{t in {0, 1}} mean_{s != t} head(online view s, target view t)

    which is the sum of both directions for two views. The coding rate of the head, if it has one,
    is subtracted. The target network never gets a gradient;
    :class:`ttl_mm.engine.TargetUpdateHook` moves it after every optimizer step. A loop of your own
    calls :meth:`set_progress` before every pass and :meth:`update_target` after every step.

    With ``target_momentum=None`` there is no target network: the online projections of the first
    two views are the keys, and the gradient goes through both sides of every comparison. That
    saves two of four passes of a backbone in an iteration, and half of the weights.

    Args:
        backbone: config of the backbone, or a module that maps images (N, C, H, W) to feature
            maps: a tuple of them, as in mmpretrain, or a tensor. A string such as
            ``timm/convnext_atto`` is a network of a library, see :class:`AdaptedBackbone`; the
            neck gets its width.
        neck: config of the projector, or a module that maps the tuple to projections (N, D).
        head: config of the head, see :class:`TruncatedTripletHead`.
        target_momentum: share m of its own weights that the target keeps in the first update;
            the hook raises it to 1. None: no target network, and no hook. The two options below
            must be None then, since the hook is what makes their draws exact; RandomViews makes
            views of any size.
        online_sizes: range from which each iteration draws the size to which the online network's
            two large views are resized, in pixels; None switches it off. Small crops stay.
        target_sizes: the same for the target network.
        channels_last: keep images and the weights of convolutions in that memory format, which is
            faster on CPUs and under mixed precision and takes a little more memory.
    """

    def __init__(
        self,
        backbone: dict | str,
        neck: dict,
        head: dict,
        target_momentum: float | None = 0.99,
        online_sizes: SizeRange | None = (96, 224),
        target_sizes: SizeRange | None = (128, 224),
        channels_last: bool = False,
        data_preprocessor: dict | None = None,
        init_cfg: dict | list | None = None,
        **old: Any,
    ):
        refuse_options('TTLAlgorithm', old, _OLD_OPTIONS)
        data_preprocessor = data_preprocessor or dict(type='mmpretrain.SelfSupDataPreprocessor')
        if isinstance(backbone, str):
            found = find_backbone(backbone)
            neck, backbone = {**neck, 'in_channels': found.width}, found.config
        super().__init__(
            backbone, neck, head, data_preprocessor=data_preprocessor, init_cfg=init_cfg
        )
        if target_momentum is not None and not 0 <= target_momentum <= 1:
            raise UserError(f'target_momentum={target_momentum}: use a share in [0, 1], as 0.99.')
        if target_momentum is None and (online_sizes, target_sizes) != (None, None):
            raise UserError(
                f'target_momentum=None with online_sizes={online_sizes}, target_sizes='
                f'{target_sizes}: without a target network set both to None, and choose the size '
                'of the views in RandomViews.'
            )
        for name, sizes in (('online_sizes', online_sizes), ('target_sizes', target_sizes)):
            if sizes is not None and not 1 <= sizes[0] <= sizes[1]:
                raise UserError(f'{name}={sizes}: use (smallest, largest) in pixels, or None.')
        self.target_momentum = target_momentum
        adapted = isinstance(self.backbone, AdaptedBackbone)
        self.allowed: ViewSizes | None = self.backbone.sizes if adapted else None
        if self.allowed and self.allowed.only and (online_sizes or target_sizes):
            online_sizes = target_sizes = None
            print_log(f'No random rescale: {self.backbone.name} takes {self.allowed}.', 'current')
        self.online_sizes = online_sizes
        self.target_sizes = target_sizes
        self.channels_last = channels_last
        if channels_last:
            self.backbone.to(memory_format=torch.channels_last)
            self.data_preprocessor.register_forward_hook(_to_channels_last)
        if self.has_target:
            self.target_backbone = deepcopy(self.backbone).requires_grad_(False)
            self.target_neck = deepcopy(self.neck).requires_grad_(False)
        self.seed = self.iteration = 0
        self._update_due = False  # since the last training pass

    @property
    def has_target(self) -> bool:
        """Whether the keys come from a target network."""
        return self.target_momentum is not None

    def init_weights(self) -> None:
        """Initialize the online network and start the target from it."""
        with quiet_outside_runs():
            super().init_weights()
        if self.has_target:
            self.sync_target()

    def set_progress(self, seed: int, iteration: int) -> None:
        """Tell the model where the run is; the sizes of this iteration follow from it."""
        self.seed, self.iteration = seed, iteration
        self._update_due = False

    @torch.no_grad()
    def update_target(self, momentum: float) -> None:
        """θ_target <- m·θ_target + (1 - m)·θ_online, parameters only."""
        target = [*self.target_backbone.parameters(), *self.target_neck.parameters()]
        online = [*self.backbone.parameters(), *self.neck.parameters()]
        foreach_lerp_(target, online, 1 - momentum)
        self._update_due = False

    def sync_target(self) -> None:
        """Copy parameters and buffers of the online network to the target network."""
        self.target_backbone.load_state_dict(self.backbone.state_dict())
        self.target_neck.load_state_dict(self.neck.state_dict())

    def loss(self, inputs: list[Tensor], data_samples: list | None = None) -> dict[str, Tensor]:
        """The loss of a batch of views, each (N, C, H, W); the first two are the large ones.

        A second training pass without :meth:`set_progress` or :meth:`update_target` is refused.
        """
        if len(inputs) < NUM_TARGETS:
            raise UserError(f'{len(inputs)} view of an image: the loss needs at least two.')
        trains = self.has_target and self.training and torch.is_grad_enabled()
        if trains and self._update_due:
            raise UserError(
                'the target network was not updated since the last training pass, so it would '
                f'never move. {ADD_THE_HOOK}\nIn a loop of your own call '
                'model.set_progress(seed, iteration) before every pass and '
                'model.update_target(momentum) after every optimizer step.'
            )
        sizes = self.view_sizes()
        large = inputs[:NUM_TARGETS]
        targets = []
        if self.has_target:
            with torch.no_grad():  # first, while no activation of the online network is held
                for images, size in zip(large, sizes['target']):
                    targets.append(self.project_target(rescale(images, size)))
        views = [rescale(x, s) for x, s in zip(large, sizes['online'])] + inputs[NUM_TARGETS:]
        projections = self.project(views)
        targets = targets or projections[:NUM_TARGETS]
        predictions = [self.head.predict(z) for z in projections]

        losses = []  # per target, the mean over the views that predict it
        for t, other in ((0, 1), (1, 0)):
            sources = [p for s, p in enumerate(predictions) if s != t]
            found = [self.head.compare(p, targets[t], targets[other]) for p in sources]
            losses.append(sum(found) / len(sources))
        self._update_due |= trains
        loss = losses[0] + losses[1]
        if self.head.coding_rate:
            loss = loss - self.head.spread(projections[:NUM_TARGETS])
        return {'loss': loss}

    def view_sizes(self) -> dict[str, list[int | None]]:
        """Sizes of the two large views in this iteration, drawn in the released code's order."""
        ranges = [self.online_sizes] * 2 + [self.target_sizes] * 2
        drawn = draw_sizes(self.seed, self.iteration, ranges)
        if self.allowed is not None:
            drawn = [size and self.allowed.nearest(size) for size in drawn]
        online_1, online_2, target_2, target_1 = drawn
        return {'online': [online_1, online_2], 'target': [target_1, target_2]}

    def project(self, views: list[Tensor]) -> list[Tensor]:
        """Online projections, (N, D) per view; small crops of one size pass together."""
        projections = [_project(self.backbone, self.neck, view) for view in views[:NUM_TARGETS]]
        for _, same_size in groupby(views[NUM_TARGETS:], key=lambda view: view.shape):
            crops = list(same_size)
            projections += _project(self.backbone, self.neck, torch.cat(crops)).chunk(len(crops))
        return projections

    def project_target(self, view: Tensor) -> Tensor:
        """Key (N, D) of one view: the target network's projection, or else the online one."""
        if not self.has_target:
            return _project(self.backbone, self.neck, view)
        return _project(self.target_backbone, self.target_neck, view)


def _project(backbone: nn.Module, neck: nn.Module, images: Tensor) -> Tensor:
    """Projections (N, D) of images (N, C, H, W); modules may return a tensor or a tuple of it."""
    maps = backbone(images)
    projections = neck((maps,) if isinstance(maps, Tensor) else maps)
    return projections if isinstance(projections, Tensor) else projections[0]


def _to_channels_last(preprocessor: nn.Module, arguments: tuple, batch: Any) -> Any:
    """Change the layout of a batch's views before a distributed wrapper keeps hold of them.

    Later, in the loss, both layouts would stay in memory for the whole iteration.
    """
    if isinstance(views := batch.get('inputs'), list):
        batch['inputs'] = [x.contiguous(memory_format=torch.channels_last) for x in views]
    return batch
