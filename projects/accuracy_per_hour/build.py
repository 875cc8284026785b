"""From a job to the config that trains it."""

from pathlib import Path
from typing import Any

from mmengine.config import Config

from projects.accuracy_per_hour.plan import BATCH, SUPERVISED, Data, Setting
from ttl_mm.config import read_config

ROOT = Path(__file__).resolve().parents[2]
BASELINE = 'configs/baselines/{}_r14_cifar10mini_1xb104_20e.py'
TRIPLET = 'projects/efficiency_study/configs/ttl_ranks2-10.py'
BARLOW = dict(
    type='BarlowTwins',
    neck=dict(
        type='NonLinearNeck', hid_channels=1024, out_channels=1024, num_layers=3, with_bias=False,
        with_last_bn=False, with_last_bias=False, with_avg_pool=True,
    ),
    head=dict(type='LatentCrossCorrelationHead', in_channels=1024,
              loss=dict(type='CrossCorrelationLoss')),
)  # fmt: skip


def model_of(method: str) -> dict[str, Any]:
    """The model of a method for cifar10_mini, with its usual settings."""
    if method in ('fast', 'coding', 'paper'):
        model = read_config(ROOT / TRIPLET).model.to_dict()
        if method != 'paper':
            model['target_momentum'] = None
            model['head'].update(
                predictor=None, gamma=1.0, deputy=(1, 20), deputy_temperature=0.1, both_views=True,
                loss_weight=2.0,
            )  # fmt: skip
        else:
            model['head']['deputy'] = 'median'
        if method == 'coding':
            model['head']['coding_rate'] = 1.0
        return model
    name = {'decoupled': 'simclr', 'barlow': 'simclr'}.get(method, method)
    model = read_config(ROOT / BASELINE.format(name)).model.to_dict()
    if method == 'decoupled':
        model['head'] = dict(type='ttl_mm.DecoupledHead', temperature=0.1)
    if method == 'barlow':
        model.update(BARLOW)
        model['neck']['in_channels'] = 64
    return model


def hooks_of(method: str) -> dict[str, Any]:
    """The hooks that only this method needs."""
    if method == 'paper':
        return dict(target_update=dict(type='ttl_mm.TargetUpdateHook', horizon_iters=1))
    if method == 'swav':
        return dict(swav=read_config(ROOT / BASELINE.format('swav')).default_hooks.swav.to_dict())
    return {}


def dataset_of(data: Data, folder: Path, part: str, pipeline: list) -> dict[str, Any]:
    """One part of the images: 'train', or its two parts 'rest' and 'held_out', or 'test'."""
    root = folder / data.name / (data.test if part == 'test' else data.train)
    whole = dict(type='ttl_mm.ImageFolder', data_root=str(root), with_label=True, pipeline=pipeline)
    if part in ('train', 'test'):
        return whole
    return dict(type='ttl_mm.HeldOut', dataset=whole, fraction=data.held_out, rest=part == 'rest')


def config_of(
    data: Data, method: str, setting: Setting, folder: Path, iterations: int, held_out: bool,
    seed: int = 0,
) -> Config:  # fmt: skip
    """The whole config of a run of so many iterations."""
    setting = dict(setting)
    images = count_images(folder / data.name / data.train)
    if held_out:
        images -= round(images * data.held_out)
    batch = setting.pop('batch', BATCH)
    per_epoch = max(1, images // batch)
    lr, size = setting.pop('lr'), setting.pop('size', data.size)
    sizes = [(0, size)] if isinstance(size, int) else [tuple(pair) for pair in size]
    epochs = iterations / per_epoch
    later = [(max(i + 1, round(start * epochs)), s) for i, (start, s) in enumerate(sizes[1:])]
    model = adapted(model_of(method), data)
    view = dict(size=sizes[0][1], later_sizes=later, num=2, area=(0.2, 1.0), blur=0.0)
    view |= {key[5:]: setting.pop(key) for key in list(setting) if key.startswith('view.')}
    views = [view]
    if pair := setting.pop('pair', None):
        views = [dict(view, num=1, size=s, later_sizes=()) for s in pair]
    warmup = round(setting.pop('warmup', 0.1) * iterations)
    optimizer = dict(type='SGD', lr=lr, momentum=0.9, weight_decay=5e-4)
    optimizer |= {key[6:]: setting.pop(key) for key in list(setting) if key.startswith('optim.')}
    in_memory = data.edge if setting.pop('memory', False) else False
    pipeline = [
        dict(type='ttl_mm.RandomViews', views=views, in_memory=in_memory), dict(type='PackInputs'),
    ]  # fmt: skip
    if method == SUPERVISED:
        pipeline = [
            dict(type='ttl_mm.RandomViews', views=[dict(view, num=1, jitter=0.0, grayscale=0.0)]),
            dict(type='ttl_mm.FirstView'), dict(type='PackInputs'),
        ]  # fmt: skip
    hooks = hooks_of(method) | trial_hooks(setting, data, folder, held_out)
    if 'target_update' in hooks:
        hooks['target_update']['horizon_iters'] = iterations
    dataset = dataset_of(data, folder, 'rest' if held_out else 'train', pipeline)
    wrapper: dict[str, Any] = dict(optimizer=optimizer)
    if amp := setting.pop('amp', None):
        wrapper |= dict(type='ttl_mm.AmpOptimWrapper', dtype=amp)
    if slow := setting.pop('slow', None):
        wrapper['paramwise_cfg'] = dict(custom_keys=slow)
    off = dict.fromkeys(('gauges', 'collapse', 'timer', 'stall', 'checkpoint', 'probe'))
    options: dict[str, Any] = dict(
        default_scope='mmpretrain',
        model=model,
        train_dataloader=dict(
            batch_size=batch, num_workers=0, drop_last=True,
            sampler=dict(type='ttl_mm.EpochSampler'), collate_fn=dict(type='default_collate'),
            dataset=dataset,
        ),
        default_hooks=dict(logger=dict(type='LoggerHook', interval=50), **off, **hooks),
        log_processor=dict(by_epoch=False),
        optim_wrapper=wrapper,
        param_scheduler=[
            dict(type='LinearLR', start_factor=0.01, end=warmup, by_epoch=False),
            decay_of(setting.pop('decay', 'cosine'), warmup, iterations),
        ],
        train_cfg=dict(type='ttl_mm.IterLoop', max_iters=iterations),
        randomness=dict(seed=seed),
        log_level='WARNING',
    )  # fmt: skip
    cfg = Config(options)
    cfg.merge_from_dict({f'model.{key}': value for key, value in setting.items()})
    return cfg


def decay_of(name: str, begin: int, end: int) -> dict[str, Any]:
    """How the rate falls: 'cosine', 'linear', or 'late', level for two thirds and then linear."""
    if name == 'cosine':
        return dict(type='CosineAnnealingLR', T_max=end - begin, begin=begin, by_epoch=False)
    start = begin if name == 'linear' else begin + 2 * (end - begin) // 3
    return dict(type='LinearLR', start_factor=1.0, end_factor=0.0, begin=start, end=end,
                by_epoch=False)  # fmt: skip


def trial_hooks(setting: dict[str, Any], data: Data, folder: Path, held_out: bool) -> dict:
    """The hooks of ideas that are tried; their settings are taken out."""
    hooks: dict[str, Any] = {}
    plain = [dict(type='ttl_mm.LoadImage')]
    if data.size != 32:
        plain.append(dict(type='Resize', scale=(data.size, data.size), backend='pillow'))
    part = 'rest' if held_out else 'train'
    images = dataset_of(data, folder, part, [*plain, dict(type='PackInputs')])
    if white := setting.pop('white', ''):
        hooks['white'] = dict(type='ttl_mm.WhiteStemHook', dataset=images, fixed=white == 'fixed')
    if share := setting.pop('average', None):
        hooks['average'] = dict(type='ttl_mm.AverageHook', share=share)
    if count := setting.pop('fresh', None):
        hooks['fresh'] = dict(type='ttl_mm.FreshStatisticsHook', dataset=images, count=count)
    return hooks


def adapted(model: dict[str, Any], data: Data) -> dict[str, Any]:
    """The model with the network and the normalization of a data set."""
    name = f'{data.pixels}_pixels'
    pixels = Config.fromfile(ROOT / f'configs/_base_/pixels/{data.pixels}.py')[name].to_dict()
    model['data_preprocessor'] = {**model['data_preprocessor'], **pixels, 'to_rgb': True}
    model['backbone'] = dict(
        model['backbone'], num_stages=data.stages, strides=(2,) * data.stages,
        dilations=(1,) * data.stages, out_indices=(data.stages - 1,),
    )  # fmt: skip
    part = 'neck' if 'in_channels' in (model.get('neck') or {}) else 'head'
    model[part]['in_channels'] = data.channels
    return model


def count_images(folder: Path) -> int:
    """Files below a folder of classes."""
    return sum(1 for path in folder.glob('*/*') if path.is_file())
