"""What an iteration takes on any number of processes: the model of docs/scale.md.

An optimizer step of p ranks, b images each, with gradients added up over a iterations, takes

    T(p) = a * max(compute(b) + sync(p), data(p)) + update + exposed(p)

``sync``: every SyncBN layer waits for an all-gather of its statistics in each forward pass, and for
an all-reduce of two sums in the backward pass; nothing overlaps with it. ``exposed``: the gradients
are reduced once per step, in buckets, while the backward pass goes on; what does not fit into that
time, and at least the last bucket, is waited for. ``data``: the time in which a rank gets b images.

All times are seconds, sizes are bytes.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

BUCKET = 25 * 2**20  # of DistributedDataParallel


class Collectives(Protocol):
    """How long p ranks take to exchange something."""

    def all_reduce(self, size: float, ranks: int) -> float: ...

    def all_gather(self, size: float, ranks: int) -> float: ...


@dataclass(frozen=True)
class Work:
    """What a recipe asks of a rank in an iteration."""

    images: int  # of a rank
    compute: float  # of a rank that is alone
    hides: float  # the part of it, in the last backward pass, during which gradients travel
    gradient: float
    gathers: tuple[float, ...] = ()  # sizes of the statistics of each SyncBN layer and pass
    reduces: tuple[float, ...] = ()  # of its sums in the backward pass
    accumulation: int = 1
    update: float = 0.0  # of the optimizer and the target network, once per step


class Step(NamedTuple):
    """The parts of an optimizer step, in the order of the formula above."""

    compute: float
    sync: float
    data: float  # waited for beyond the two
    exposed: float
    images: int

    @property
    def seconds(self) -> float:
        return self.compute + self.sync + self.data + self.exposed

    @property
    def images_per_second(self) -> float:
        return self.images / self.seconds


def step_time(
    work: Work, ranks: int, by: Collectives, loading: float = 0.0, crowded: float = 1.0
) -> Step:
    """One optimizer step on so many ranks.

    Args:
        work: Of a rank.
        ranks: p.
        by: The times of collectives.
        loading: Seconds in which a rank gets its images, beside its computing.
        crowded: By how much ranks that share a machine slow each other down.
    """
    sync = 0.0
    exposed = 0.0
    if ranks > 1:
        sync = sum(by.all_gather(size, ranks) for size in work.gathers)
        sync += sum(by.all_reduce(size, ranks) for size in work.reduces)
        buckets = [BUCKET] * int(work.gradient // BUCKET) + [work.gradient % BUCKET]
        last = by.all_reduce(buckets[0] if len(buckets) > 1 else work.gradient, ranks)
        whole = sum(by.all_reduce(size, ranks) for size in buckets)
        exposed = max(whole - work.hides, last)
    compute, update = crowded * work.compute, crowded * work.update
    a = work.accumulation
    data = max(0.0, loading - compute - sync)
    return Step(a * compute + update, a * sync, a * data, exposed, a * ranks * work.images)


@dataclass(frozen=True)
class Gloo:
    """Rings of processes on one machine, which copy by processor: fitted, not published.

    2(p - 1) turns of ``turn`` seconds, in which a rank passes on 2(p - 1)/p of the bytes; a gather
    has half as many turns, of whole parts. Ranks that share a core take their turns on it. ``call``
    is what a collective costs on top: the threads that send must first get the core.
    """

    turn: float
    byte: float
    cores: int
    call: float = 0.0

    def _shared(self, ranks: int) -> float:
        return max(1.0, ranks / self.cores)

    def all_reduce(self, size: float, ranks: int) -> float:
        turns = 2 * (ranks - 1)
        return self._seconds(ranks, turns * (self.turn + self.byte * size / ranks))

    def all_gather(self, size: float, ranks: int) -> float:
        return self._seconds(ranks, (ranks - 1) * (self.turn + self.byte * size))

    def _seconds(self, ranks: int, turns: float) -> float:
        return self.call * (ranks > 1) + self._shared(ranks) * turns


@dataclass(frozen=True)
class Nccl:
    """Rings and trees of GPUs as NCCL's own tuning estimates them, and the faster of the two.

    The numbers are those of NCCL, ``src/graph/tuning.cc`` (for the protocols LL, which small
    messages take, and Simple, which large ones take).

    Args:
        per_node: GPUs of a machine.
        link: Bandwidth between them.
        net: Bandwidth out of a machine.
        call: What a call costs the processor, on top.
    """

    per_node: int
    link: float
    net: float
    call: float = 0.0

    def _nodes(self, ranks: int) -> int:
        return math.ceil(ranks / self.per_node)

    def _bandwidth(self, nodes: int) -> float:
        return self.link if nodes == 1 else min(self.link, self.net)

    def _ring(self, size: float, ranks: int, turns: int, between: int) -> float:
        nodes = self._nodes(ranks)
        bandwidth = self._bandwidth(nodes)
        small = 3.6e-6 + (turns - between) * 0.47e-6 * (1.8 if nodes > 1 else 1) + between * 2.7e-6
        large = 8.4e-6 + (turns - between) * 3.4e-6 + between * 9.6e-6
        seconds = size * turns / ranks / bandwidth
        return min(small + 4 * seconds, large + seconds)

    def _tree(self, size: float, ranks: int) -> float:
        nodes = self._nodes(ranks)
        bandwidth = min(80e9 if nodes > 2 else 110e9, 0.9 * self._bandwidth(nodes))
        inside, hops = min(ranks, self.per_node) - 1, math.log2(nodes)
        small = 4.4e-6 + 2 * (inside * 0.52e-6 * (1.8 if nodes > 1 else 1) + hops * 5e-6)
        large = 2 * (inside * 28e-6 + hops * 50e-6)
        seconds = 2 * size / bandwidth
        return min(small + 3.8 * seconds, large + seconds)

    def all_reduce(self, size: float, ranks: int) -> float:
        turns, between = 2 * (ranks - 1), 2 * (self._nodes(ranks) - 1)
        return self.call + min(self._ring(size, ranks, turns, between), self._tree(size, ranks))

    def all_gather(self, size: float, ranks: int) -> float:
        between = self._nodes(ranks) - 1
        return self.call + self._ring(size * ranks, ranks, ranks - 1, between)


COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
AREA_ONLINE, AREA_TARGET = 0.5378, 0.6330  # of the rescaled views, in views of 224 pixels
FORWARD = (
    1 / 2470 / 3
)  # seconds of an A100 for the forward pass of an image; backward is twice that
BATCH, STEP_IMAGES = 104, 4160
DGX = Nccl(per_node=8, link=235e9, net=200e9, call=20e-6)
ONE_CARD = Nccl(per_node=8, link=235e9, net=12.5e9, call=20e-6)
CORES_PER_GPU, VIEWS_PER_CORE = 16, 345
FILE_BYTES, STORE = 110e3, 10e9


def main_recipe(ranks: int, sync: bool = True) -> Work:
    """An iteration of ``configs/ttl_r50_8xb104_200e.py`` on an A100."""
    forward, backward = 2 * AREA_ONLINE * FORWARD * BATCH, 4 * AREA_ONLINE * FORWARD * BATCH
    target = 2 * AREA_TARGET * FORWARD * BATCH
    # statistics of 2C + 1 numbers, in both networks and for both views; sums of 2C in one network
    channels = {64: 14, 128: 16, 256: 32, 512: 22, 1024: 14, 2048: 8, 4096: 4}
    gathers = {64: 28, 128: 32, 256: 64, 512: 44, 1024: 28, 2048: 16, 4096: 6}
    return Work(
        BATCH, forward + backward + target, backward, 4 * 35_067_456,
        tuple(4 * (2 * c + 1) for c, n in gathers.items() for _ in range(n)) if sync else (),
        tuple(8 * c for c, n in channels.items() for _ in range(n)) if sync else (),
        max(1, round(STEP_IMAGES / BATCH / ranks)),
    )  # fmt: skip


def loading_time(ranks: int, store: float = math.inf) -> float:
    """Seconds in which a rank gets its images from its cores, and from a store that all share."""
    return max(BATCH / CORES_PER_GPU / VIEWS_PER_CORE, BATCH * FILE_BYTES * ranks / store)


def tables() -> str:
    """The tables of docs/scale.md."""
    lines = [
        '| GPUs | images of a step | compute | SyncBN | gradients | images/s | efficiency |',
        '|---|---|---|---|---|---|---|',
    ]
    one = step_time(main_recipe(1), 1, DGX, loading_time(1)).images_per_second
    for ranks in COUNTS:
        work = main_recipe(ranks)
        step = step_time(work, ranks, DGX, loading_time(ranks))
        ms = [1000 * part / work.accumulation for part in (step.compute, step.sync, step.exposed)]
        share = step.images_per_second / ranks / one
        lines.append(
            f'| {ranks} | {step.images:,} | {ms[0]:.1f} ms | {ms[1]:.1f} ms | {ms[2]:.2f} ms '
            f'| {step.images_per_second:,.0f} | {share:.0%} |'
        )
    lines += [
        '',
        '| GPUs | as above | BN per GPU | one 100 Gb/s card a machine | the same, BN per GPU '
        '| a store of 10 GB/s |',
        '|---|---|---|---|---|---|',
    ]
    for ranks in COUNTS:
        cells = []
        for net, sync, store in (
            (DGX, True, math.inf), (DGX, False, math.inf), (ONE_CARD, True, math.inf),
            (ONE_CARD, False, math.inf), (DGX, True, STORE),
        ):  # fmt: skip
            step = step_time(main_recipe(ranks, sync), ranks, net, loading_time(ranks, store))
            cells.append(f'{step.images_per_second / ranks / one:.0%}')
        lines.append(f'| {ranks} | {" | ".join(cells)} |')
    return '\n'.join(lines)
