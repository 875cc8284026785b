"""One call from images to a backbone: plan, train, report."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from torch import nn

from ttl_mm.engine.runner.processes import (
    RunEndedError,
    check_given,
    start_line,
    train_in_processes,
)
from ttl_mm.errors import UserError
from ttl_mm.evaluation.model import load_model
from ttl_mm.export import FORMATS
from ttl_mm.files.stores.url import clean_url, is_url
from ttl_mm.models.libraries import give_module, given_module
from ttl_mm.planning.request import Request
from ttl_mm.planning.train_config import write_train_config
from ttl_mm.pretraining.close import close, goodbye
from ttl_mm.pretraining.plan import Planner
from ttl_mm.pretraining.run_folder import FINISHED, NEW, RunFolder
from ttl_mm.report import load_run


@dataclass(frozen=True)
class Pretrained:
    """A finished run."""

    paths: dict[str, Path]  # out, checkpoint, backbone, report and, if asked for, export

    @cached_property
    def backbone(self) -> nn.Module:
        """The trained network, in evaluation mode: images (N, 3, H, W) to a tuple of maps."""
        return load_model(str(self.paths['backbone']), device='cpu')[0]

    @cached_property
    def history(self) -> list[dict]:
        """What was logged, a dict for every line: ``iter``, ``loss``, ``probe/knn_top1`` ..."""
        return load_run(self.paths['out']).records


def pretrain(
    images: str | Path | Sequence[str | Path],
    out: str | Path | None = None,
    backbone: str | nn.Module | None = None,
    size: int | None = None,
    epochs: int | None = None,
    hours: float | None = None,
    gpus: int | None = None,
    labels: str | Path | None = None,
    init: str | Path | None = None,
    export: str | None = None,
    *,
    amp: str | None = None,
    compile: bool = False,
    checkpoint_activations: bool = False,
    patience: int | None = None,
    dry_run: bool = False,
    config_out: str | Path | None = None,
    say: Callable[[str], None] = print,
    begun: float | None = None,
) -> Pretrained | None:
    """Pre-train a backbone on images without labels; the same call again continues or returns.

    Args:
        images: A folder of any depth, a text file with one path a line, or several of these.
        out: Folder for everything that is written; ``work_dirs/NAME_OF_THE_IMAGES`` by default.
        backbone: A name such as 'resnet18' or 'timm/convnext_atto'; ``ttl backbones`` lists them.
            Or a module that maps images (N, 3, H, W) to features: its weights are the start, and
            it stays as it is; the trained copy is ``backbone`` of what is returned.
        size: Edge of the square views, in pixels.
        epochs: Length of the run.
        hours: The same in hours: steps, and the size if it is left open, are fitted into them.
        gpus: How many to use; all by default. Without a GPU, the number of processes.
        labels: A labeled folder on which kNN is measured while training; never trained on.
        init: Weights of the backbone to start from, in any layout that ``ttl import`` reads.
        export: One more layout to write at the end, as for ``ttl export``.
        amp: Mixed precision: 'bf16', 'fp16', 'auto' or 'off'.
        compile: Compile the networks with ``torch.compile``.
        checkpoint_activations: Compute activations again in the backward pass: less memory, more
            time.
        patience: End the run after so many judgments without labels that were not better than
            the best before.
        dry_run: Stop after the plan.
        config_out: Write the plan as a config for ``tools/train.py`` instead of training.
        say: Receives the lines for the user.
        begun: ``time.monotonic()`` when the job began, which ``hours`` counts from.

    Returns:
        The finished run; None after ``dry_run`` or ``config_out``.

    Raises:
        UserError: Something to correct; nothing was overwritten.
        RunEndedError: Training was interrupted or stopped by a guard.
    """
    begun = time.monotonic() if begun is None else begun
    if isinstance(backbone, nn.Module):
        if config_out is not None:
            raise UserError(
                f'config_out={str(config_out)!r} with backbone={type(backbone).__name__}(...): a '
                'config names a network of a library and cannot hold a module. Leave one of both.'
            )
        check_given(backbone)
        backbone = give_module(backbone, size)
    paths = [images] if isinstance(images, (str, os.PathLike)) else list(images)
    if export is not None and export not in FORMATS:
        raise UserError(f'--export {export} is not known: choose one of {", ".join(FORMATS)}.')
    request = Request(
        tuple(_absolute(path) for path in paths), backbone, size, epochs, hours, gpus,
        _absolute(labels) if labels else None, _absolute(init) if init else None, export,
        amp, compile, checkpoint_activations, patience,
    )  # fmt: skip
    folder = RunFolder(out or Path('work_dirs') / Path(request.images[0]).stem)
    if dry_run or config_out is not None:
        _plan_only(request, begun, say, config_out)
        return None
    state = folder.state(request)
    if state == FINISHED:
        say(f'{folder.out} is finished already: choose another --out to train again.')
    else:
        if state == NEW:
            _begin(folder, request, begun, say)
        else:
            say(f'Continuing {folder.out}.')
        given = given_module(request.backbone)
        if code := train_in_processes(folder.config, folder.out, folder.ranks, given=given):
            raise RunEndedError(folder.out, code)
    written = close(folder, request)
    say(goodbye(written, request))
    return Pretrained(written)


def _absolute(path: str | Path) -> str:
    if isinstance(path, str) and is_url(path):
        return clean_url(path)
    return os.path.abspath(os.path.expanduser(path))


def _plan_only(request: Request, begun: float, say, config_out) -> None:
    planner = Planner(request, begun, say)
    if config_out is not None and Path(config_out).exists():
        raise UserError(f'{config_out} exists: name another file with --config-out, or delete it.')
    plan = planner.make()
    table = planner.table(plan)
    say(table)
    if config_out is not None:
        path = Path(config_out)
        config = planner.config(plan, path.with_name(f'{path.stem}_lists'))
        write_train_config(config, path, f'Planned by ttl train:\n{table}')
        say(f'{path}\nStart: {start_line(path)}')


def _begin(folder: RunFolder, request: Request, begun: float, say) -> None:
    planner = Planner(request, begun, say)
    plan = planner.make()
    table = planner.table(plan)
    say(table)
    folder.check_space(plan.disk)
    folder.config.unlink(missing_ok=True)
    config = planner.config(plan, folder.plan)
    # what can be done with the weights is said when backbone and report are there
    console = {'type': 'ttl_mm.ConsoleHook', 'title': folder.out.name, 'next_steps': False}
    config.default_hooks.console = console
    write_train_config(config, folder.config, f'Planned by ttl train:\n{table}')
    folder.begin(request, plan.ranks)
