"""Everything a run must remember to continue as if it had never stopped."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from mmengine.dist import all_reduce, get_world_size
from mmengine.logging import MessageHub
from torch import Tensor, nn

from ttl_mm.checkpoint.plain_types import keep_plain_types, to_plain_types
from ttl_mm.engine.state.control_group import from_first, gather, gather_to_first
from ttl_mm.engine.state.log_history import load_log, log_state
from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.engine.state.run_settings import RunSettings
from ttl_mm.errors import UserError
from ttl_mm.files.plain_json import parse_json
from ttl_mm.version import __version__

# every run sets these itself
_OF_THIS_RUN = {
    'cfg', 'seed', 'experiment_name', 'mmengine_version', 'dataset_meta', 'loop_stage',
    'max_epochs', 'max_iters', 'eta', 'signs_of_life',
}  # fmt: skip

# what every run saves, since the first version
_SAVED: dict[str, type | tuple[type, ...]] = {
    'meta.epoch': int, 'meta.iter': int, 'state_dict': Mapping, 'optimizer': Mapping,
    'param_schedulers': (Mapping, list), 'message_hub.runtime_info': Mapping,
    'ttl_mm.ranks': list, 'ttl_mm.hooks': Mapping, 'ttl_mm.settings': Mapping,
    'ttl_mm.config': str,
}  # fmt: skip


def capture(runner, epoch: int, iteration: int) -> dict[str, Any] | None:
    """The state after ``iteration`` steps and ``epoch`` whole epochs; collective.

    Returns:
        A dict of plain values and tensors on rank 0, None elsewhere.
    """
    model, dataset = unwrap_model(runner.model), runner.train_dataloader.dataset
    gradients = _open_gradient(model)
    loop, settings = runner.train_loop, RunSettings.of(runner)
    gathered = gather_to_first(_rank_states(model, loop.rng_states()))
    if gathered is None:
        return None
    ranks = in_order_of_ranks(gathered)
    state = {
        'meta': {
            'epoch': epoch,
            'iter': iteration,
            'seed': runner.seed,
            'experiment_name': runner.experiment_name,
            'ttl_mm_version': __version__,
            'dataset_meta': keep_plain_types(getattr(dataset, 'metainfo', {})),
        },
        'state_dict': model.state_dict(),
        'optimizer': to_plain_types(runner.optim_wrapper.state_dict()),
        'param_schedulers': to_plain_types(_scheduler_states(runner.param_schedulers)),
        'message_hub': _message_hub_state(runner.message_hub),
        'ttl_mm': {
            'ranks': ranks,
            'gradients': to_plain_types(gradients),
            'log': log_state(runner.message_hub),
            'hooks': to_plain_types({n: hook.state_dict() for n, hook in _with_state(runner)}),
            'settings': asdict(settings),
            'images_per_step': loop.images_per_step
            or settings.batch_size * settings.accumulative_counts,
            'images_per_iteration': loop.images_per_iteration or settings.batch_size,
            'processes': loop.ranks.processes,
            'config': config_text(runner.cfg),
            'validated': runner.train_loop.validated,
            'position': runner.train_loop.position._asdict(),
            'generation': runner.train_loop.generation,
        },
    }
    runner.call_hook('before_save_checkpoint', checkpoint=state)
    state['state_dict'] = to_plain_types(state['state_dict'])
    return state


def check_state(state: Mapping[str, Any], where: str) -> None:
    """Refuse a sealed file that is no checkpoint of a run: anybody can seal a file.

    Raises:
        UserError: Something that every run saves is missing or of another kind.
    """
    for place, kind in _SAVED.items():
        here: Any = state
        for key in place.split('.'):
            here = here.get(key) if isinstance(here, Mapping) else None
        if not isinstance(here, kind) or isinstance(here, bool):
            raise UserError(
                f'{where} is no checkpoint of a run that can go on, its {place} is '
                f'{type(here).__name__}: choose another file, or start from its weights with '
                'load_from.'
            )
    try:
        read_config_text(state['ttl_mm']['config'])
    except ValueError as error:
        raise UserError(f'{where} cannot be resumed, its config is damaged: {error}.') from error
    try:
        RunSettings.from_saved(state['ttl_mm']['settings'])
    except ValueError as error:
        raise UserError(f'{where} cannot be resumed, its settings are damaged: {error}.') from error


def restore(runner, state: Mapping[str, Any]) -> None:
    """Put back all but the weights and the random generators."""
    runner.optim_wrapper.load_state_dict(state['optimizer'])
    _load_schedulers(runner.param_schedulers, state['param_schedulers'])
    own = state['ttl_mm']
    runner.message_hub.update_info_dict(dict(state['message_hub']['runtime_info']))
    # earlier checkpoints hold the log in message_hub
    load_log(runner.message_hub, own.get('log', state['message_hub']['log_scalars']))
    for name, hook in _with_state(runner):
        if name in own['hooks']:
            hook.load_state_dict(own['hooks'][name])
    ranks = runner.train_loop.ranks
    if ranks.ranks == len(own['ranks']):
        _load_rank_state(unwrap_model(runner.model), own, ranks.process)


def in_order_of_ranks(gathered: list[list[dict]]) -> list[dict]:
    """The states of all ranks, from lists of those whose work each process does.

    Rank r is done by process r % P as its (r // P)-th.
    """
    return [states[part] for part in range(len(gathered[0])) for states in gathered]


def config_text(cfg) -> str:
    """The config as JSON: data, which nobody will execute."""
    return json.dumps(cfg.to_dict(), default=str, sort_keys=True)


def read_config_text(text: str) -> dict[str, Any]:
    """The config of such a text, which may come from the checkpoint of a stranger."""
    config = parse_json(text, allow_nan=True)
    if not isinstance(config, dict):
        raise ValueError(f'its config is a {type(config).__name__}')
    return config


def _rank_states(model: nn.Module, generators: list[dict]) -> list[dict[str, Any]]:
    """What differs between ranks: generators, and buffers such as BN statistics; collective.

    A buffer that is the same as on rank 0 (a memory bank, a synchronized statistic) is left out.
    The ranks of one process share their buffers.
    """
    buffers = dict(model.named_buffers())
    digests = {name: _digest(buffer) for name, buffer in buffers.items()}
    of_first = from_first(digests)
    own = {name: x for name, x in buffers.items() if digests[name] != of_first[name]}
    return to_plain_types([{'rng': rng, 'buffers': own} for rng in generators])


def _digest(tensor: Tensor) -> bytes:
    content = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
    return hashlib.sha256(content.numpy().data).digest()


@torch.no_grad()
def _open_gradient(model: nn.Module) -> dict[str, Tensor]:
    """The gradient accumulated but not applied, the same on every rank; collective.

    Inside an accumulation every rank has one of its own, as large as the network. They are replaced
    by their mean, which is what the step would have made of them, so that one rank can save it.
    """
    parameters = dict(model.named_parameters())
    names = {name for name, p in parameters.items() if p.grad is not None}
    names = set().union(*gather(names))  # a rank may not have used all parameters yet
    for name in sorted(names) if get_world_size() > 1 else ():
        if parameters[name].grad is None:
            parameters[name].grad = torch.zeros_like(parameters[name])
        all_reduce(parameters[name].grad, 'mean')
    return {name: p.grad for name, p in parameters.items() if p.grad is not None}


@torch.no_grad()
def _load_rank_state(model: nn.Module, own: Mapping[str, Any], rank: int) -> None:
    buffers, parameters = dict(model.named_buffers()), dict(model.named_parameters())
    for name, value in own['ranks'][rank]['buffers'].items():
        buffers[name].copy_(value)
    for name, gradient in saved_gradients(own, rank).items():
        parameters[name].grad = gradient.to(parameters[name].device)


def saved_gradients(own: Mapping[str, Any], rank: int) -> Mapping[str, Tensor]:
    """The open gradient in a checkpoint; an earlier one has another for every rank."""
    return own['gradients'] if 'gradients' in own else own['ranks'][rank]['gradients']


def _with_state(runner) -> list[tuple[str, Any]]:
    """The hooks that have something to remember, each under a name of its own."""
    found: dict[str, Any] = {}
    for hook in runner.hooks:
        if hasattr(hook, 'state_dict') and hasattr(hook, 'load_state_dict'):
            name = type(hook).__name__
            while name in found:
                name += "'"
            found[name] = hook
    return list(found.items())


def _scheduler_states(schedulers):
    if isinstance(schedulers, Mapping):
        return {name: _scheduler_states(some) for name, some in schedulers.items()}
    return [scheduler.state_dict() for scheduler in schedulers or []]


def _load_schedulers(schedulers, states) -> None:
    if isinstance(schedulers, Mapping):
        for name, some in schedulers.items():
            _load_schedulers(some, states[name])
        return
    for scheduler, state in zip(schedulers or [], states):
        scheduler.load_state_dict(state)


def _message_hub_state(hub: MessageHub) -> dict[str, Any]:
    """What mmengine's ``MessageHub.load_state_dict`` reads: runtime information that is plain.

    The logged values are apart (:mod:`~ttl_mm.engine.state.log_history`): mmengine accepts them as
    objects of a class of its own alone, which no checkpoint of ours holds.
    """
    info = {name: value for name, value in hub.runtime_info.items() if name not in _OF_THIS_RUN}
    info = keep_plain_types(info)
    return {'log_scalars': {}, 'runtime_info': info, 'resumed_keys': dict.fromkeys(info, True)}
