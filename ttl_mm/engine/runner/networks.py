"""How networks run: compiled, or with activations that are computed again instead of kept."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ttl_mm.compat.torch_private import BatchNorm, allow_graphs
from ttl_mm.errors import UserError

OTHER_GRAPHS = 16  # of a network, beside those for its sizes: evaluation, other batches


def choose_networks(
    cfg: MutableMapping[str, Any], compile: bool = False, checkpoint_activations: bool = False
) -> None:
    """Write the two options into a config, which may ask for them in more detail already."""
    if compile:
        cfg['compile'] = cfg.get('compile') or True
    if checkpoint_activations:
        cfg['checkpoint_activations'] = cfg.get('checkpoint_activations') or True


def prepare_networks(model: nn.Module, cfg: Mapping[str, Any]) -> list[str]:
    """Let the networks of ``model`` run as ``compile`` and ``checkpoint_activations`` say.

    Names and values of the state dict stay as they are. Called last before the loop: a copy of the
    model that is made later would share the blocks of this one.

    Returns:
        A sentence for the log about each.
    """
    done = []
    options, names = cfg.get('compile'), cfg.get('checkpoint_activations')
    blocks = find_blocks(model, names) if names else []
    if options:
        compile_networks(model, {} if options is True else dict(options), blocks)
        done.append('The networks are compiled by torch.compile in the first iterations.')
    if blocks:
        for block in blocks:
            recompute(block)
        done.append(f'The activations of {len(blocks)} blocks are computed again when needed.')
    return done


def find_blocks(model: nn.Module, names: bool | str | Sequence[str] = True) -> list[nn.Module]:
    """The modules whose activations are not kept: those named, or the blocks of the backbone.

    A block is a member of a Sequential or ModuleList of the backbone with two or more layers that
    have weights, as in residual networks and transformers. Where there are none it is the backbone
    itself.
    """
    if names is not True:
        names = [names] if isinstance(names, str) else names or []
        try:
            return [model.get_submodule(name) for name in names]
        except AttributeError as error:
            raise UserError(f'checkpoint_activations={names}: {error}.') from error
    backbone = getattr(model, 'backbone', model)
    return list(_members(backbone)) or [backbone]


def _members(module: nn.Module) -> Iterator[nn.Module]:
    for child in module.children():
        if isinstance(child, (nn.Sequential, nn.ModuleList)):
            for member in child:
                with_weights = (m for m in member.modules() if list(m.parameters(recurse=False)))
                if len(list(with_weights)) > 1:
                    yield member
        else:
            yield from _members(child)


def compile_networks(
    model: nn.Module, options: dict[str, Any], apart: Sequence[nn.Module] = ()
) -> None:
    """Compile every network of a model: its children with weights.

    The loss between them stays as it is. Modules in ``apart`` are compiled one by one: nothing
    outside them is compiled in their network. Under a random rescale the graphs take any size
    from the start (``dynamic=True``): one that is made for the first size, and another for the
    rest, would round differently after a resume. Where the code generator makes a graph for every
    size all the same, as that for CPUs does, there is room for all of them.
    """
    ranges = [getattr(model, name, None) for name in ('online_sizes', 'target_sizes')]
    if any(ranges):
        options = {'dynamic': True, **options}
        allow_graphs(OTHER_GRAPHS + sum(high - low + 1 for low, high in filter(None, ranges)))
    for block in apart:
        block.forward = torch.compile(block.forward, **options)
    for network in model.children():
        holds = any(block in set(network.modules()) for block in apart)
        if list(network.parameters()) and not holds:
            network.compile(**options)


def recompute(block: nn.Module) -> None:
    """Keep only the input of a block, and run it a second time in the backward pass.

    The second time sees the same random numbers and leaves the statistics of BatchNorm alone.
    """
    once = block.forward
    norms = [m for m in block.modules() if isinstance(m, BatchNorm)]

    @wraps(once)
    @torch.compiler.disable(recursive=False)
    def forward(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return once(*args, **kwargs)
        contexts: Callable = lambda: (nullcontext(), _on_copies(norms))  # noqa: E731
        return checkpoint(once, *args, use_reentrant=False, context_fn=contexts, **kwargs)

    block.forward = forward


@contextmanager
def _on_copies(norms: Sequence[nn.Module]) -> Iterator[None]:
    """Let layers write into copies of their buffers."""
    buffers: list[tuple[nn.Module, str, Tensor]] = [
        (norm, name, buffer) for norm in norms for name, buffer in norm.named_buffers(recurse=False)
    ]
    for norm, name, buffer in buffers:
        setattr(norm, name, buffer.clone())
    try:
        yield
    finally:
        for norm, name, buffer in buffers:
            setattr(norm, name, buffer)
