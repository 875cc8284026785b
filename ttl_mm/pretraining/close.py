"""What a finished run leaves behind: backbone, other layouts, report, and how to use them."""

from pathlib import Path

from ttl_mm.checkpoint.sealed import newest_valid
from ttl_mm.errors import UserError
from ttl_mm.export import FORMATS, export_backbone, import_remark, usage_hint
from ttl_mm.planning.request import Request
from ttl_mm.pretraining.run_folder import RunFolder
from ttl_mm.report import write_report
from ttl_mm.report.neighbors import neighbors_section


def close(folder: RunFolder, request: Request) -> dict[str, Path]:
    """Write what is missing of backbone, export and report; the paths of all."""
    checkpoint, _ = newest_valid(folder.out)
    if checkpoint is None:
        raise UserError(f'{folder.out} holds no checkpoint: delete the folder and start again.')
    paths = {'out': folder.out, 'checkpoint': checkpoint, 'backbone': folder.backbone}
    if request.export is not None:
        paths['export'] = _export(checkpoint, folder, request.export)
    if not folder.page.is_file():
        extra = [neighbors_section(folder.out)] if request.labels else []
        title = f'Pre-training on {", ".join(Path(path).name for path in request.images)}'
        write_report([folder.out], folder.page.parent, extra, title, with_paper=False)
    paths['report'] = folder.page
    if not folder.backbone.is_file():  # last: it marks a run as finished
        export_backbone(checkpoint, 'plain', folder.backbone)
    return paths


def _export(checkpoint: Path, folder: RunFolder, layout: str) -> Path:
    path = folder.out / f'backbone_{layout}{FORMATS[layout].suffix}'
    return path if path.is_file() else export_backbone(checkpoint, layout, path)


def goodbye(paths: dict[str, Path], request: Request) -> str:
    """The last words: what lies where, and three lines that load the weights."""
    lines = [f'backbone  {paths["backbone"]}']
    if request.export is not None:
        hint = usage_hint(paths['export'], request.export, paths['checkpoint'])
        lines.append(f'export    {paths["export"]}: {hint}')
    lines += [f'report    {paths["report"]}', 'Use it:']
    use = usage_hint(paths['backbone'], 'plain')
    lines += [f'    {line}' for line in [*import_remark(use).splitlines(), *use.splitlines()]]
    return '\n'.join(lines)
