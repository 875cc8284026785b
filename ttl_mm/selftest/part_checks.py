"""From what the ranks wrote down to the checks: one function for each part of the self-test.

It gives the functions of :mod:`~ttl_mm.selftest.checks` their figures, or says why there are none.
"""

import re
from collections.abc import Callable
from typing import Any

from mmengine.config import Config

from ttl_mm.checkpoint.sealed import read_sealed, sealed_files
from ttl_mm.errors import counted
from ttl_mm.files.regular import LOG, read_text
from ttl_mm.planning.memory import measure_recipe
from ttl_mm.selftest import checks
from ttl_mm.selftest.checks import FAIL, PASS, Check, skipped
from ttl_mm.selftest.ranks import Job
from ttl_mm.selftest.small_recipe import INFINITY_AT, STEPS

Found = list[dict[str, dict[str, Any]]]


def _failed(name: str, found: Found, stage: str) -> Check | None:
    """The failure of a check whose own stage ended with an error on some rank."""
    for rank, stages in enumerate(found):
        if error := stages.get(stage, {}).get('error'):
            return Check(name, FAIL, f'rank {rank}: {error}', 'correct it, or report it with --out')
    return None


def _unknown(name: str, found: Found, stage: str) -> Check | None:
    """Not applicable, if not every rank went through a stage."""
    for rank, stages in enumerate(found):
        if stage not in stages:
            return skipped(name, f'rank {rank} did not get so far')
        if 'error' in stages[stage]:
            return skipped(name, 'the run failed')
    return None


def training_checks(job: Job, found: Found, device: str) -> list[Check]:
    """Whether every rank went through the run of the recipe."""
    name = 'training'
    if job.ranks > 1 and any('error' in stages.get('connect', {}) for stages in found):
        return [skipped(name, 'the ranks are not connected')]
    if problem := _failed(name, found, 'whole'):
        return [problem]
    if any('whole' not in stages for stages in found):
        silent = [str(rank) for rank, stages in enumerate(found) if 'whole' not in stages]
        text = f'rank {", ".join(silent)} ended, or took more than {job.seconds:.0f} s'
        return [Check(name, FAIL, text, 'report it with --out, which writes the last log lines')]
    return [Check(name, PASS, f'{STEPS} iterations of the recipe on {counted(job.ranks, "rank")}')]


def gradient_checks(job: Job, found: Found, device: str) -> list[Check]:
    """Loss and gradient of the device against float64, also in half precision where it is on."""
    names = 'loss and gradient', 'the same in half precision'
    if problem := _failed(names[0], found, 'gradient') or _unknown(names[0], found, 'gradient'):
        return [problem]
    errors = found[0]['gradient']
    full = checks.check_gradient(names[0], errors['device'], errors['cpu'], checks.FLOOR)
    if 'device_mixed' not in errors:
        return [full, skipped(names[1], 'mixed precision is off here')]
    pair = errors['device_mixed'], errors['cpu_mixed']
    return [full, checks.check_gradient(names[1], *pair, checks.MIXED_FLOOR)]


def ops_checks(job: Job, found: Found, device: str) -> list[Check]:
    """Whether the compiled ops of mmcv compute what their definition says."""
    name = 'compiled ops'
    problem = _failed(name, found, 'ops') or _unknown(name, found, 'ops')
    return [problem or checks.check_ops(found[0]['ops'])]


def network_checks(job: Job, found: Found, device: str) -> list[Check]:
    """Whether all ranks agree on a sum, over gloo and over NCCL."""
    if job.ranks == 1:
        return [skipped('gloo', 'one process'), skipped('nccl', 'one process')]
    if problem := _failed('gloo', found, 'connect') or _unknown('gloo', found, 'connect'):
        remedy = 'set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME to an interface of this machine'
        return [problem._replace(remedy=remedy), skipped('nccl', 'not reached')]
    groups = [
        checks.check_group(backend, [stages['connect'][backend] for stages in found])
        for backend in found[0]['connect']
    ]
    return groups if len(groups) > 1 else [*groups, skipped('nccl', 'no GPU')]


def ranks_checks(job: Job, found: Found, device: str) -> list[Check]:
    """Whether all ranks end with the same online and target weights."""
    names = {'online': 'weights on all ranks', 'target': 'target on all ranks'}
    if job.ranks == 1:
        return [skipped(name, 'one process') for name in names.values()]
    if problem := _unknown(names['online'], found, 'whole'):
        return [problem]
    results = []
    for part, name in names.items():
        digests = [stages['whole'][part] for stages in found]
        if digests[0] is None:
            results.append(skipped(name, 'the model has no target network'))
        else:
            what = f'the {part} weights after {STEPS} iterations'
            results.append(checks.check_same_on_ranks(name, digests, what))
    return results


def infinity_checks(job: Job, found: Found, device: str) -> list[Check]:
    """Whether an infinite loss under mixed precision costs one step and not the run."""
    name = 'infinity under AMP'
    if problem := _failed(name, found, 'infinity') or _unknown(name, found, 'infinity'):
        return [problem]
    logs = '\n'.join(read_text(path, LOG) for path in job.folder.glob('infinity_run/*/*.log'))
    logged = re.search('skipped.*loss scale', logs) is not None
    ranks = [stages['infinity'] for stages in found]
    scales, moved = ([rank[what] for rank in ranks] for what in ('scales', 'moved'))
    return [checks.check_infinity(INFINITY_AT, scales, moved, logged)]


def resume_checks(job: Job, found: Found, device: str) -> list[Check]:
    """Whether an interrupted run ends with the weights of one that was not interrupted."""
    for stage in ('interrupt', 'resume'):
        if problem := _failed('resume', found, stage) or _unknown('resume', found, stage):
            return [problem]
    whole = sealed_files(job.folder / 'whole_run')[0][0]
    files = [path for path, _ in sealed_files(job.folder / 'parts_run')]
    end, resumed, start = (read_sealed(path)['state_dict'] for path in (whole, files[0], files[-1]))
    return [checks.check_resume(end, resumed, start, exact=device == 'cpu')]


def size_checks(job: Job, found: Found, device: str) -> list[Check]:
    """Whether a checkpoint holds weights and optimizer once, however many ranks there are."""
    if problem := _unknown('checkpoint size', found, 'whole'):
        return [problem]
    parts = found[0]['whole']['bytes']
    once = parts['model'] + parts['optimizer']
    if device == 'cpu':  # without SyncBN each rank has statistics of its own
        once += (job.ranks - 1) * parts['buffers']
    sizes, expected = {}, {}
    accumulation = Config.fromfile(job.folder / 'whole.py').optim_wrapper.accumulative_counts
    for work in ('whole_run', 'parts_run'):
        for path, seal in sealed_files(job.folder / work):
            name = f'{work}/{path.name}'
            sizes[name] = path.stat().st_size
            open_gradient = bool(seal.iteration % accumulation)
            expected[name] = once + open_gradient * parts['gradient']
    return [checks.check_size(sizes, expected, job.ranks)]


def speed_checks(job: Job, found: Found, device: str) -> list[Check]:
    """Images per second of the slowest rank, and the longest wait for data."""
    if problem := _unknown('speed', found, 'whole'):
        return [problem]
    slowest = min((stages['whole'] for stages in found), key=lambda run: run['images_per_s'])
    waits = [stages['whole']['data_wait'] for stages in found]
    return [checks.check_speed(slowest['images_per_s'], max(waits))]


def memory_checks(job: Job, found: Found, device: str) -> list[Check]:
    """Peak memory against the estimate of ``ttl plan``."""
    if problem := _unknown('memory', found, 'whole'):
        return [problem]
    recipe = job.folder / 'whole.py'
    cfg = Config.fromfile(recipe)
    if cfg.get('compile') or cfg.get('checkpoint_activations'):
        return [skipped('memory', 'the plan estimates plain networks')]
    try:
        use = measure_recipe(recipe)
    except Exception as error:  # models and views that the plan was not made for
        reason = str(error).splitlines()[0]
        return [skipped('memory', f'the plan has no estimate of this recipe ({reason})')]
    runs, batch = [stages['whole'] for stages in found], cfg.train_dataloader.batch_size
    if device == 'cpu':
        peak = max(run['peak_memory'] - run['resident_before'] for run in runs)
        return [checks.check_memory(peak, use.bytes_of(batch), checks.MEMORY_SLACK)]
    peak = max(run['peak_memory'] for run in runs)
    return [checks.check_memory(peak, use.bytes_on_device(batch))]


PART_CHECKS: tuple[Callable[[Job, Found, str], list[Check]], ...] = (
    network_checks,
    training_checks,
    gradient_checks,
    ops_checks,
    ranks_checks,
    infinity_checks,
    resume_checks,
    size_checks,
    speed_checks,
    memory_checks,
)
