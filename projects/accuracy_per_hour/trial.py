"""Ideas that were tried and are not in the package: what they are, so that they can be repeated."""

from itertools import combinations

import torch
import torch.nn.functional as F
from mmengine.hooks import Hook
from torch import Tensor, nn

from ttl_mm.models import TTLAlgorithm
from ttl_mm.registry import DATASETS, HOOKS, MODELS

GRID = 6  # cells per edge in which directions of edges are counted


@MODELS.register_module()
class TrialAlgorithm(TTLAlgorithm):
    """The algorithm without a target network, on two views of one size, with one idea each.

    Args:
        cells: compare also features that are pooled over this share of the cells of the last
            feature map, drawn at random: more views for the price of a projector.
        coding: weight of a coding-rate term, the volume that the projections of a view fill.
        contrast: weight of the triplets; 0 leaves alignment.
        align: weight of plain alignment, -cos of the two projections of an image.
        direct: weight of triplets of the features themselves, without a projector.
        turned: share of the images whose two views are both turned by 90, 180 or 270 degrees.
            A linear layer predicts the turn from the features of each view.
        patches: pieces per edge into which the second view is cut; means of two pieces' features
            are compared with the first view, as Fast-MoCo does.
        edges: weight of the mean square error of a linear layer that predicts
            :func:`edge_directions` of each view from its own features (``edges_own``), or from
            those of the other view (``edges_other``).
        edges_contrast: weight of triplets of projections against projected edge directions.
        joint: BatchNorm takes its statistics over both views at once.
        queue: nearest neighbors among the projections of so many batches become positives too.
        start: from this iteration on.
        echo: steps per batch, each on new crops and flips of its views, made for the whole batch.
        target_size: pixels of those crops.
    """

    def __init__(
        self,
        *args,
        cells=0.0,
        coding=0.0,
        contrast=1.0,
        align=0.0,
        direct=0.0,
        turned=0.0,
        patches=0,
        edges=0.0,
        edges_own=True,
        edges_other=False,
        edges_contrast=0.0,
        joint=False,
        queue=0,
        start=300,
        echo=1,
        target_size=24,
        **kwargs,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.cells, self.coding, self.joint = cells, coding, joint
        self.contrast, self.align = contrast, align
        self.direct, self.turned, self.patches = direct, turned, patches
        width = self.neck.fc0.in_features
        if turned:
            self.turn_head = nn.Linear(width, 4)
        if direct:
            self.direct_norm = nn.BatchNorm1d(width, affine=False)
        self.edges, self.edges_own, self.edges_other = edges, edges_own, edges_other
        self.edges_contrast = edges_contrast
        size = 8 * GRID**2
        if edges:
            self.edge_norm = nn.BatchNorm1d(size, affine=False)
            self.edge_head = nn.Linear(width, size)
        if edges_contrast:
            out = self.neck.fc1.out_features
            self.edge_neck = nn.Sequential(
                nn.Linear(size, 256),
                nn.BatchNorm1d(256),
                nn.ReLU(),
                nn.Linear(256, out),
                nn.BatchNorm1d(out),
            )
        self.queue, self.start = queue, start
        self.echo, self.target_size = echo, target_size
        self.kept: list[Tensor] = []
        self.count = 0

    def loss(self, inputs: list[Tensor], data_samples: list | None = None) -> dict[str, Tensor]:
        """The loss of two views, each (N, C, H, W)."""
        turns = None
        if self.turned:
            turns = self.draw_turns(len(inputs[0]))
            inputs = [turn_images(x, turns) for x in inputs]
        inputs = [x.contiguous(memory_format=torch.channels_last) for x in inputs]
        if self.patches:
            return {'loss': self.patch_loss(inputs)}
        if self.joint:
            maps = self.backbone(torch.cat(inputs))[-1]
            keys, maps = self.neck((maps,))[0].chunk(2), maps.chunk(2)
        else:
            maps = [self.backbone(x)[-1] for x in inputs]
            keys = [self.neck((m,))[0] for m in maps]
        loss = 0.0
        if self.contrast:
            loss = self.contrast * self.both_ways(keys, keys)
        if self.align:
            loss = loss - 4 * self.align * F.cosine_similarity(*keys).mean()
        if self.cells:
            loss = (loss + self.both_ways([self.part_of(m) for m in maps], keys)) / 2
        if self.coding:
            loss = loss - self.coding * sum(coding_rate(z) for z in keys)
        if self.turned:
            pooled = [m.mean(dim=(2, 3)) for m in maps]
            found = sum(F.cross_entropy(self.turn_head(x), turns) for x in pooled)
            loss = loss + found
        if self.edges or self.edges_contrast:
            targets = [edge_directions(x) for x in inputs]
        if self.edges:
            found = [self.edge_head(m.mean(dim=(2, 3))) for m in maps]
            goals = [self.edge_norm(t) for t in targets]
            if self.edges_own:
                loss = loss + self.edges * sum(F.mse_loss(f, g) for f, g in zip(found, goals))
            if self.edges_other:
                loss = loss + self.edges * sum(F.mse_loss(f, g) for f, g in zip(found, goals[::-1]))
        if self.edges_contrast:
            own = [self.edge_neck(t) for t in targets]
            extra = self.both_ways(keys, own) + self.both_ways(own, keys)
            loss = loss + self.edges_contrast * extra / 2
        if self.direct:
            plain = [self.direct_norm(m.mean(dim=(2, 3))) for m in maps]
            loss = loss + self.direct * self.both_ways(plain, plain)
        if self.queue:
            loss = self.with_neighbors(loss, keys)
        return {'loss': loss}

    def draw_turns(self, count: int) -> Tensor:
        """How many quarters each image is turned: 0 for most of them."""
        turns = torch.randint(1, 4, (count,))
        return turns * (torch.rand(count) < self.turned)

    def patch_loss(self, inputs: list[Tensor]) -> Tensor:
        """View 1 against means of two pieces of view 2, all of which pass in one batch."""
        whole = self.backbone(inputs[0])[-1]
        key = self.neck((whole,))[0]
        n, edge = self.patches, inputs[1].shape[-1] // self.patches
        pieces = [
            inputs[1][:, :, i * edge : i * edge + edge, j * edge : j * edge + edge]
            for i in range(n)
            for j in range(n)
        ]
        maps = self.backbone(torch.cat(pieces).contiguous(memory_format=torch.channels_last))[-1]
        pooled = maps.mean(dim=(2, 3)).chunk(n * n)
        pairs = [(a + b) / 2 for a, b in combinations(pooled, 2)]
        queries = self.neck((torch.cat(pairs)[:, :, None, None],))[0].chunk(len(pairs))
        found = sum(self.both_ways([key, q], [key, q]) for q in queries) / len(queries)
        if self.coding:
            rates = sum(coding_rate(z) for z in queries) / len(queries)
            found = found - self.coding * (coding_rate(key) + rates)
        return found

    def train_step(self, data, optim_wrapper) -> dict[str, Tensor]:
        """One step per batch, or several of them."""
        if self.echo == 1:
            return super().train_step(data, optim_wrapper)
        data = self.data_preprocessor(data, True)
        for _ in range(self.echo):
            views = [recropped(x, self.target_size) for x in data['inputs']]
            loss, log = self.parse_losses(self.loss(views))
            optim_wrapper.update_params(loss)
        return log

    def both_ways(self, queries, keys, others=None) -> Tensor:
        """View 1 against view 2 and the other way round."""
        first, second = (self.head.predict(z) for z in queries)
        others = others or keys
        compare = self.head.compare
        return compare(first, keys[1], others[0]) + compare(second, keys[0], others[1])

    def part_of(self, maps: Tensor) -> Tensor:
        """Projections of features pooled over a random share of the cells, at least one."""
        mask = (torch.rand(len(maps), 1, *maps.shape[2:]) < self.cells).float()
        mask.view(len(maps), -1)[:, torch.randint(mask[0].numel(), ())] = 1
        return self.neck((maps * (mask / mask.mean(dim=(2, 3), keepdim=True)),))[0]

    def with_neighbors(self, loss: Tensor, keys) -> Tensor:
        """Half of the loss is against the nearest kept projection of each key, later in a run."""
        self.count += 1
        if self.count > self.start:
            bank = torch.cat(self.kept)
            nearest = [
                bank[(F.normalize(z.detach()) @ F.normalize(bank).T).argmax(1)] for z in keys
            ]
            extra = self.both_ways(keys, nearest, [z.detach() for z in keys])
            loss = (loss + extra) / 2
        self.kept = [*self.kept, keys[0].detach()][-self.queue :]
        return loss


def coding_rate(projections: Tensor, distortion: float = 0.2) -> Tensor:
    """Log det(I + D / (N·ε)·ZᵀZ) / 2D of unit projections Z (N, D)."""
    z = F.normalize(projections)
    count, width = z.shape
    volume = torch.logdet(torch.eye(width) + z.T @ z * (width / count / distortion))
    return volume / 2 / width


def recropped(images: Tensor, size: int, least: float = 0.5) -> Tensor:
    """A random crop of at least this share of the area, and a flip, of each of (N, C, H, W)."""
    count = len(images)
    scale = least**0.5 + torch.rand(count, 2) * (1 - least**0.5)
    turn = images.new_zeros(count, 2, 3)
    turn[:, 0, 0] = scale[:, 0] * (torch.randint(0, 2, (count,)) * 2 - 1)
    turn[:, 1, 1] = scale[:, 1]
    turn[:, :, 2] = (torch.rand(count, 2) * 2 - 1) * (1 - scale)
    grid = F.affine_grid(turn, [count, images.shape[1], size, size], align_corners=False)
    return F.grid_sample(images, grid, padding_mode='reflection', align_corners=False)


def turn_images(images: Tensor, turns: Tensor) -> Tensor:
    """Each of (N, C, H, H) turned by so many quarters."""
    images = images.clone()
    for quarters in (1, 2, 3):
        chosen = turns == quarters
        images[chosen] = images[chosen].rot90(quarters, dims=(2, 3))
    return images


def edge_directions(images: Tensor, grid: int = GRID, bins: int = 8) -> Tensor:
    """How strong edges of each direction are in each cell of a grid, (N, bins·grid²)."""
    with torch.no_grad():
        x = images.mean(dim=1)
        dx = F.pad(x[:, :, 2:] - x[:, :, :-2], (1, 1))
        dy = F.pad(x[:, 2:] - x[:, :-2], (0, 0, 1, 1))
        xx, yy = dx * dx, dy * dy
        size = (xx + yy).add_(1e-6).sqrt_()
        c2, s2 = (xx - yy) / size, 2 * dx * dy / size  # size·cos 2θ, size·sin 2θ
        c4, s4 = (c2 * c2 - s2 * s2) / size, 2 * c2 * s2 / size
        parts = F.adaptive_avg_pool2d(torch.stack([size, c2, s2, c4, s4], 1), grid)
        angle = torch.arange(bins) * (torch.pi / bins)
        mix = torch.stack(
            [
                torch.full((bins,), 3 / 8),
                torch.cos(2 * angle) / 2,
                torch.sin(2 * angle) / 2,
                torch.cos(4 * angle) / 8,
                torch.sin(4 * angle) / 8,
            ],
            1,
        )
        found = F.conv2d(parts, mix[:, :, None, None]).clamp_(min=0)  # size·cos⁴(θ - angle)
        total = F.avg_pool2d(found.square().sum(1, keepdim=True), 3, 1, 1, count_include_pad=False)
        return (found / (total.sqrt() + 0.08)).sqrt_().flatten(1)


@HOOKS.register_module()
class WhiteStemHook(Hook):
    """Start the first convolution from the main directions of patches, and from minus these.

    Args:
        dataset: Plain images.
        fixed: Whether it stays as it is.
        count: Images that are looked at.
    """

    def __init__(self, dataset: dict, fixed: bool = False, count: int = 500) -> None:
        self.dataset, self.fixed, self.count = dataset, fixed, count

    @torch.no_grad()
    def before_train(self, runner) -> None:
        conv = runner.model.backbone.conv1
        patches = []
        for images in plain_batches(self.dataset, self.count):
            images = runner.model.data_preprocessor({'inputs': [images], 'data_samples': None})
            found = F.unfold(images['inputs'][0], conv.kernel_size)  # (N, 27, cells)
            patches.append(found.transpose(1, 2).flatten(0, 1))
        rows = torch.cat(patches)
        values, vectors = torch.linalg.eigh(torch.cov(rows.T))
        half = conv.out_channels // 2
        main = (vectors / (values + 1e-2).sqrt()).T.flip(0)[:half]
        weight = torch.cat([main, -main]).view_as(conv.weight)
        conv.weight.copy_(weight * (conv.weight.norm() / weight.norm()))
        conv.weight.requires_grad_(not self.fixed)


@HOOKS.register_module()
class AverageHook(Hook):
    """End with the mean of the weights over the last share of the run."""

    priority = 'LOW'

    def __init__(self, share: float) -> None:
        self.share, self.count, self.mean = share, 0, []

    @torch.no_grad()
    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        if runner.iter + 1 <= (1 - self.share) * runner.max_iters:
            return
        params = list(runner.model.parameters())
        self.count += 1
        if self.count == 1:
            self.mean = [p.clone() for p in params]
        else:
            torch._foreach_lerp_(self.mean, params, 1 / self.count)

    @torch.no_grad()
    def after_train(self, runner) -> None:
        for p, mean in zip(runner.model.parameters(), self.mean):
            p.copy_(mean)


@HOOKS.register_module()
class FreshStatisticsHook(Hook):
    """Take the statistics of BatchNorm anew in the end, from plain images at full size."""

    priority = 'VERY_LOW'

    def __init__(self, dataset: dict, count: int) -> None:
        self.dataset, self.count = dataset, count

    @torch.no_grad()
    def after_train(self, runner) -> None:
        model = runner.model
        norms = [m for m in model.backbone.modules() if isinstance(m, nn.BatchNorm2d)]
        for m in norms:
            m.reset_running_stats()
            m.momentum = None  # the mean over all batches
        model.train()
        for images in plain_batches(self.dataset, self.count):
            data = model.data_preprocessor({'inputs': [images], 'data_samples': None})
            model.backbone(data['inputs'][0].contiguous(memory_format=torch.channels_last))


def plain_batches(config: dict, count: int, size: int = 250):
    """Images (N, 3, H, W) of a dataset, evenly spread over it."""
    dataset = DATASETS.build(config)
    chosen = [i * len(dataset) // count for i in range(min(count, len(dataset)))]
    for start in range(0, len(chosen), size):
        yield torch.stack([dataset[i]['inputs'] for i in chosen[start : start + size]])
