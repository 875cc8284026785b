"""The checks of the self-test: each a pure function from what was measured to one line."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ttl_mm.errors import counted

PASS, FAIL, NOT_APPLICABLE = 'pass', 'fail', 'not applicable'

MB = 10**6
#: errors against float64 may be this many times those of the CPU in the same precision, plus a
#: floor for loss and gradient
ERROR_FACTOR = 3.0
FLOOR = {'loss': 1e-4, 'gradient': 1e-3}
MIXED_FLOOR = {'loss': 0.05, 'gradient': 0.05}
#: but at most this share of its length for the gradient, since one of zeros is off by 1
MOST_OF_GRADIENT = 0.9
#: a resumed run may differ by this share of the way that the weights went since the interruption,
#: on devices whose sums are not in a fixed order
RESUME_BOUND = 0.05
#: a checkpoint may be this much larger than its weights, optimizer and open gradient
SIZE_BOUND = 1.1
#: what a checkpoint holds beside them: log, config, and the random generators of each rank
SMALL_PARTS, PER_RANK = 2 * MB, 0.1 * MB
#: largest share of the time that may be spent waiting for images
WAIT_BOUND = 0.5
#: peak memory against the estimate of ``ttl plan``
MEMORY_BOUND = 1.1
#: a process without a GPU also holds the buffers of its libraries
MEMORY_SLACK = 500 * MB

UPDATE_TORCH = 'install another release of torch (and driver), and report it with --out'


class Check(NamedTuple):
    """One line of the report; ``remedy`` is empty unless the check failed."""

    name: str
    status: str
    found: str
    remedy: str = ''


def result(name: str, good: bool, found: str, remedy: str) -> Check:
    """A check that passed, or failed and then needs its remedy."""
    return Check(name, PASS, found) if good else Check(name, FAIL, found, remedy)


def skipped(name: str, why: str) -> Check:
    """A check that says nothing on this machine."""
    return Check(name, NOT_APPLICABLE, why)


def check_gradient(
    name: str, device: Mapping[str, float], cpu: Mapping[str, float], floor: Mapping[str, float]
) -> Check:
    """Errors of loss and gradient (as a share of its length) against float64, there and here."""
    if cpu['gradient'] > MOST_OF_GRADIENT:
        share = f'{cpu["gradient"]:.1e} of its length'
        return skipped(name, f'the gradient of the CPU is off by {share}: nothing to judge by')
    bounds = {part: ERROR_FACTOR * cpu[part] + floor[part] for part in floor}
    bounds['gradient'] = min(bounds['gradient'], MOST_OF_GRADIENT)
    found = (
        f'loss off by {device["loss"]:.1e} (bound {bounds["loss"]:.1e}), gradient by '
        f'{device["gradient"]:.1e} of its length (bound {bounds["gradient"]:.1e})'
    )
    good = all(device[part] <= bounds[part] for part in floor)
    remedy = f'this device does not compute what a CPU does: {UPDATE_TORCH}'
    return result(name, good, found, remedy)


def check_ops(measured: Mapping[str, Any]) -> Check:
    """The compiled ops of mmcv, which detection needs."""
    name, device = 'compiled ops', measured['device']
    if measured.get('missing'):
        return skipped(name, f'{measured["missing"]}; only detection needs them')
    built = f'built for {measured["built_for"]}, run on {device}'
    if wrong := measured.get('wrong'):
        remedy = 'build them on a machine with this GPU and CUDA: `make full` there (FORCE_CUDA=1)'
        return result(name, False, f'{built}: {wrong}', remedy)
    return result(name, True, f'{built}: nms and roi_align as on paper', '')


def check_group(backend: str, ranks: Sequence[Mapping[str, Any]]) -> Check:
    """``ranks``: what each rank measured of this backend: sum of all ranks, interface, seconds."""
    expected = sum(range(1, len(ranks) + 1))
    interfaces = sorted({rank['interface'] or 'an unknown interface' for rank in ranks})
    found = f'{len(ranks)} ranks over {", ".join(interfaces)}'
    found += f', {1000 * max(rank["seconds"] for rank in ranks):.1f} ms for a small sum'
    wrong = [str(rank['sum']) for rank in ranks if rank['sum'] != expected]
    if wrong:
        found += f'; the sum is {", ".join(wrong)} and not {expected}'
    remedy = f'choose another network interface with {backend.upper()}_SOCKET_IFNAME=NAME'
    return result(backend, not wrong, found, remedy)


def check_same_on_ranks(name: str, digests: Sequence[str], what: str) -> Check:
    """``digests``: a hash of ``what`` of every rank."""
    groups: dict[str, list[str]] = {}
    for rank, digest in enumerate(digests):
        groups.setdefault(digest, []).append(str(rank))
    if len(groups) == 1:
        return result(name, True, f'{what} equal on all {len(digests)} ranks, to the last bit', '')
    split = ' | '.join(', '.join(ranks) for ranks in groups.values())
    remedy = (
        'gradients do not reach every rank: check find_unused_parameters and model_wrapper_cfg '
        'of the config, then NCCL_P2P_DISABLE=1'
    )
    return result(name, False, f'{what} differ between ranks {split}', remedy)


def check_infinity(
    at: int, scales: Sequence[Sequence[float]], moved: Sequence[Sequence[bool]], logged: bool
) -> Check:
    """An infinite gradient in iteration ``at``, on one rank.

    ``scales``: the loss scale after each iteration, of each rank; ``moved``: whether its weights
    changed in it.
    """
    before, after = scales[0][at - 2], scales[0][at - 1]
    problems = []
    if any(other != scales[0] for other in scales):
        problems.append('the ranks disagree about the loss scale')
    if not after < before:
        problems.append(f'the loss scale stayed at {after:g}')
    if any(steps[at - 1] for steps in moved):
        problems.append('the weights were changed by that step')
    if not all(any(steps[at:]) for steps in moved):
        problems.append('no later step changed the weights')
    if not logged:
        problems.append('the log has no line about it')
    found = f'iteration {at} of {len(scales[0])}: loss scale {before:g} -> {after:g}'
    if not problems:
        return result('infinity under AMP', True, f'{found}, step skipped, logged, went on', '')
    remedy = 'train with --amp bf16 or off, and report it with --out'
    return result('infinity under AMP', False, f'{found}; {"; ".join(problems)}', remedy)


def check_resume(
    whole: Mapping[str, Tensor],
    resumed: Mapping[str, Tensor],
    start: Mapping[str, Tensor],
    exact: bool,
) -> Check:
    """Weights at the end of a run in one go and of one that was interrupted at ``start``.

    ``exact``: whether the device adds in a fixed order, so that every bit must agree.
    """
    name, remedy = 'resume', 'do not rely on --resume here; report it with --out'
    if missing := whole.keys() ^ resumed.keys():
        return result(name, False, f'{sorted(missing)[0]} is in one of the runs only', remedy)
    if all(whole[key].equal(resumed[key]) for key in whole):
        return result(name, True, 'the interrupted run ends with the same weights, bit by bit', '')
    off, way = distance(whole, resumed), distance(whole, start)
    share = off / way if way else float('inf')
    bound = 'every bit must agree on this device' if exact else f'bound {RESUME_BOUND:.0%}'
    found = f'differs by {share:.2%} of the way since the interruption ({bound})'
    return result(name, not exact and share <= RESUME_BOUND, found, remedy)


def distance(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> float:
    """The Euclidean distance of two sets of weights."""
    squares = [
        (left[key].double() - right[key].double()).square().sum()
        for key in left
        if left[key].is_floating_point()
    ]
    return float(torch.stack(squares).sum().sqrt())


def check_size(sizes: Mapping[str, int], expected: Mapping[str, int], ranks: int) -> Check:
    """``sizes``: bytes of checkpoint files; ``expected``: bytes of what each must hold once."""
    limits = {f: SIZE_BOUND * expected[f] + SMALL_PARTS + ranks * PER_RANK for f in sizes}
    worst = max(sizes, key=lambda file: sizes[file] / limits[file])
    good = expected[worst] <= sizes[worst] <= limits[worst]
    found = (
        f'{sizes[worst] / MB:.1f} MB ({worst}, {counted(ranks, "rank")}); weights, optimizer and '
        f'open gradient are {expected[worst] / MB:.1f} MB, at most {limits[worst] / MB:.1f} is '
        'right'
    )
    remedy = 'a hook stores more than it must: look at what it adds in before_save_checkpoint'
    return result('checkpoint size', good, found, remedy)


def check_speed(images_per_s: float, data_wait: float) -> Check:
    """Speed of all ranks together, and the share of time spent waiting for images."""
    found = f'{images_per_s:,.0f} images per second, {data_wait:.0%} of the time waiting for data'
    remedy = (
        'raise train_dataloader.num_workers up to the cores of a rank (Slurm: --cpus-per-task), '
        'or put the images on a faster disk'
    )
    return result('speed', data_wait <= WAIT_BOUND, f'{found} (bound {WAIT_BOUND:.0%})', remedy)


def check_memory(peak: int, estimate: float, slack: float = 0.0) -> Check:
    """Peak bytes of a rank against the estimate of ``ttl plan``."""
    bound = MEMORY_BOUND * estimate + slack
    found = (
        f'{peak / 2**30:.2f} GB at the peak, the plan says {estimate / 2**30:.2f} '
        f'(bound {bound / 2**30:.2f})'
    )
    remedy = (
        'plan with less memory than the device has (`ttl plan --memory`), a smaller batch, or '
        '--checkpoint-activations'
    )
    return result('memory', peak <= bound, found, remedy)
