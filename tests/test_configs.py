"""Every recipe: its name, its parts, its schedule; and the main ones train."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
import yaml
from mmengine.config import Config
from mmengine.dataset import Compose
from mmengine.hooks import Hook
from mmengine.optim import build_optim_wrapper
from mmengine.registry import PARAM_SCHEDULERS, init_default_scope
from mmengine.runner import get_priority

from tests.helpers.images import CHINA, write_images
from tests.helpers.paths import ROOT
from tests.helpers.toy_run import make_images
from ttl_mm.config import read_config
from ttl_mm.datasets import RandomViews
from ttl_mm.datasets.view_params import View
from ttl_mm.engine.runner.substitutes import Substitutes
from ttl_mm.models.build_loaded import WithoutWeights
from ttl_mm.registry import HOOKS, MODELS, RUNNERS

RECIPES = {
    path.stem: path
    for path in sorted((ROOT / 'configs').rglob('ttl_*.py'))
    if '_base_' not in path.parts
}
NAME = re.compile(
    r'ttl(_[a-z]+[\d.-]*)?_r(?P<depth>18|50)(_[a-z]+\d+k?|_digits|_scenes)?_(?P<gpus>\d+)xb'
    r'(?P<batch>\d+)(_accum(?P<accum>\d+))?_((?P<stop>\d+)of)?(?P<epochs>\d+)e'
)
ITERATIONS = 1540  # per epoch of ImageNet on 8 x 104
TABLE = {
    0: 0.00048, 1: 0.4804, 5: 2.3965, 9: 4.2985, 10: 4.7705, 20: 4.6825, 50: 4.0971, 100: 2.4,
    150: 0.7029, 180: 0.1175, 199: 0.0003,
}  # fmt: skip


@pytest.fixture(autouse=True)
def scope():
    init_default_scope('mmpretrain')


def read(name: str) -> Config:
    return read_config(RECIPES[name])


def on_cpu(config: Config) -> Config:
    """Without mixed precision, which mmengine has on GPUs alone."""
    config.optim_wrapper.type = 'OptimWrapper'
    config.optim_wrapper.pop('loss_scale', None)
    return config


@pytest.fixture(scope='module')
def main_model() -> torch.nn.Module:
    init_default_scope('mmpretrain')
    torch.manual_seed(0)
    model = MODELS.build(read('ttl_r50_8xb104_200e').model)
    model.init_weights()
    return model


@pytest.mark.parametrize('name', RECIPES)
def test_name_states_the_batch_and_the_schedule_and_it_builds(name):
    stated, config = NAME.fullmatch(name), read(name)
    gpus, batch = int(stated['gpus']), int(stated['batch'])
    # the paper's 8 x 104 accumulates five times; any other accumulation is part of the name
    accumulation = int(stated['accum'] or (5 if gpus == 8 else 1))
    assert config.model.backbone.depth == int(stated['depth'])
    assert config.train_dataloader.batch_size == batch
    assert config.auto_scale_lr.base_batch_size == gpus * batch
    assert not config.auto_scale_lr.enable
    assert config.optim_wrapper.get('accumulative_counts', 1) == accumulation
    epochs = int(stated['epochs'])
    assert config.train_cfg.max_epochs == int(stated['stop'] or epochs)
    assert config.param_scheduler[-1].T_max == config.param_scheduler[-1].end == epochs
    if config.model.target_momentum is not None:
        assert config.default_hooks.target_update.horizon_epochs == epochs
    with WithoutWeights():  # whose names and shapes suffice
        model = MODELS.build(on_cpu(config).model)
    build_optim_wrapper(model, config.optim_wrapper)
    for hook in config.default_hooks.values():
        HOOKS.build(hook)
    assert model.head.window(batch - 1)[1] < batch


def test_kernels_are_chosen_by_trial_where_sizes_stay_the_same():
    """Under the random rescale every iteration would try them all again."""
    paths = [p for p in (ROOT / 'configs').rglob('*.py') if '_base_' not in p.parts]
    assert len(paths) > 40
    for path in paths:
        config = read_config(path)
        varies = 'TTLAlgorithm' in config.model.type and config.model.get('online_sizes', 'varies')
        assert config.env_cfg.cudnn_benchmark == (not varies), path.name
        if config.model.data_preprocessor.type != 'ClsDataPreprocessor':  # which does not take it
            assert config.model.data_preprocessor.non_blocking, path.name


@pytest.mark.parametrize('name', [name for name in RECIPES if name.startswith('ttl_fast_')])
def test_views_of_fast_recipes_grow_in_the_last_quarter_of_the_epochs(name):
    config = read(name)
    assert config.model.target_momentum is None
    views = next(s for s in config.train_dataloader.dataset.pipeline if 'views' in s).views
    starts = {start for view in views for start, _ in view.later_sizes}
    assert starts == {config.train_cfg.max_epochs * 3 // 4}


def test_no_two_recipes_are_the_same_in_deputy_margin_or_else():
    stated = {
        'ttl_r50_8xb104_200e': ('median', -100.0),
        'ttl_ranks2-10_r50_in1k_8xb104_200e': ((2, 10), -100.0),
        'ttl_k1_r50_in1k_8xb104_20of200e': (1, -100.0),
        'ttl_k5_r50_in1k_8xb104_20of200e': (5, -100.0),
        'ttl_k52_r50_in1k_8xb104_20of200e': (52, -100.0),
        'ttl_margin-0.3_r50_in1k_8xb104_20of200e': ('median', -0.3),
        'ttl_margin-1.2_r50_in1k_8xb104_20of200e': ('median', -1.2),
    }
    heads = {name: MODELS.build(read(name).model.head) for name in stated}
    assert {name: (head.deputy, head.margin) for name, head in heads.items()} == stated
    for head in heads.values():
        assert (head.gamma, head.loss_weight, head.gather_negatives) == (2.0, 2.0, False)
    texts = [str(read(name).to_dict()) for name in RECIPES]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize(
    'config', ['ttl_r50_8xb104_200e', 'digits/ttl_ranks2*', 'linear/*r18_digits*']
)
def test_hooks_run_in_the_order_of_the_architecture_page(config):
    section = (ROOT / 'docs/architecture.md').read_text().split('## The order of hooks')[1]
    page, priority = {}, ''
    for first, hooks in re.findall(r'^\| (\w*) ?\| (`.*?) \|', section.split('\n## ')[0], re.M):
        priority = first or priority
        page |= dict.fromkeys(re.findall(r'`(\w+)`', hooks), priority)
    (path,) = (ROOT / 'configs').glob(f'{config}.py')
    used = Substitutes().hooks(read_config(path).default_hooks)
    found = {name: get_priority(HOOKS.build(hook).priority) for name, hook in used.items()}
    assert sorted(found, key=found.get) == [name for name in page if name in found]
    for name, number in found.items():
        assert number == get_priority(int(page[name]) if page[name].isdigit() else page[name])


def test_size_and_initialization_of_the_main_recipe(main_model):
    # Kaiming by fan-in for backbone and projector, 0.01 for the predictor, no zeroed residual
    sizes = {'backbone': 23_508_032, 'neck': 9_449_728, 'head': 2_109_696}
    sizes |= {f'target_{part}': sizes[part] for part in ('backbone', 'neck')}
    for name, size in sizes.items():
        assert sum(p.numel() for p in getattr(main_model, name).parameters()) == size, name
    for part, std in (('backbone', None), ('neck', None), ('head.predictor', 0.01)):
        for name, module in main_model.get_submodule(part).named_modules():
            if isinstance(module, (torch.nn.Conv2d, torch.nn.Linear)):
                fan_in = module.weight[0].numel()
                expected = std or (2 / fan_in) ** 0.5
                assert module.weight.std().item() == pytest.approx(expected, rel=0.05), name
                assert abs(module.weight.mean().item()) < 0.05 * expected, name
                assert module.bias is None or not module.bias.any(), name
            elif isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
                assert (module.weight == 1).all(), name
                assert not module.bias.any(), name
                assert (module.eps, module.momentum) == (1e-5, 0.1)
    assert main_model.neck.fc1.bias is not None
    for part in ('backbone', 'neck'):
        online, target = map(main_model.get_submodule, (part, f'target_{part}'))
        torch.testing.assert_close(target.state_dict(), online.state_dict(), rtol=0, atol=0)


def test_lars_groups_of_the_main_recipe(main_model):
    settings = on_cpu(read('ttl_r50_8xb104_200e')).optim_wrapper
    groups = build_optim_wrapper(main_model, settings).optimizer.param_groups
    names = {id(p): name for name, p in main_model.named_parameters()}
    excluded = {names[id(g['params'][0])] for g in groups if g['lars_exclude']}
    assert len(groups) == 171
    # the rule of the released code, on parameter names
    rule = re.compile(r'(bn|gn)\d*.(weight|bias)|bias')
    trained = [name for name, p in main_model.named_parameters() if p.requires_grad]
    assert excluded == {name for name in trained if rule.search(name)}
    assert len(excluded) == 110
    assert all(g['weight_decay'] == (0 if g['lars_exclude'] else 1e-6) for g in groups)
    assert not any(name.startswith('target') for name in trained)


def test_learning_rates_of_the_main_recipe():
    config = read('ttl_r50_8xb104_200e')
    lr = config.optim_wrapper.optimizer.lr
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    schedulers = []
    for settings in config.param_scheduler:
        settings = dict(settings, optimizer=optimizer)
        if settings.pop('convert_to_iter_based', False):
            kind = PARAM_SCHEDULERS.get(settings.pop('type')).build_iter_from_epoch
            schedulers.append(kind(**settings, begin=0, epoch_length=ITERATIONS))
        else:
            schedulers.append(PARAM_SCHEDULERS.build(settings))
    found = {}
    for epoch in range(200):
        found[epoch] = optimizer.param_groups[0]['lr']
        optimizer.step()  # mmengine warns if a schedule goes first
        for _ in range(ITERATIONS if epoch < 11 else 0):  # the warm-up has ended
            [s.step() for s in schedulers if not s.by_epoch]
        [s.step() for s in schedulers if s.by_epoch]
    assert {epoch: found[epoch] for epoch in TABLE} == {
        epoch: pytest.approx(value, rel=1e-4, abs=5e-5) for epoch, value in TABLE.items()
    }


def test_recipes_are_part_of_the_built_package(tmp_path):
    """`ttl plan` finds the main recipe and `mim` the index without a checkout."""
    build = [sys.executable, 'setup.py', '-q', 'build_py', '--build-lib', str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    code = 'from ttl_mm.planning import *; p = default_recipe(); print(p, read_recipe(p).batch)'
    environment = {**os.environ, 'PYTHONPATH': str(tmp_path), 'OMP_NUM_THREADS': '1'}
    run = subprocess.run(
        [sys.executable, '-c', code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    shipped = tmp_path / 'ttl_mm' / '.mim'
    printed = run.stdout.splitlines()[-1:]  # mmpretrain may print before, as it is imported
    assert printed == [f'{shipped}/configs/ttl_r50_8xb104_200e.py 104'], run.stderr
    for metafile in yaml.safe_load((shipped / 'model-index.yml').read_text())['Import']:
        for model in yaml.safe_load((shipped / metafile).read_text())['Models']:
            assert (shipped / model['Config']).is_file()


def test_views_of_the_multi_crop_recipe():
    dataset = read('ttl_multicrop_r50_in1k_8xb104_200e').train_dataloader.dataset
    settings = dataset.pipeline[0].copy()
    assert settings.pop('type') == 'ttl_mm.RandomViews'
    views = RandomViews(**settings).views
    assert [view.size for view in views] == [(224, 224)] * 2 + [(96, 96)] * 6
    assert [view.area for view in views] == [(0.14, 1.0)] * 2 + [(0.05, 0.14)] * 6


def test_our_views_and_the_stock_ones_are_the_same():
    """The stock data recipe differs in its pipeline alone, and describes the same views."""
    folder = ROOT / 'configs/_base_/datasets'
    ours, stock = (
        Config.fromfile(folder / f'{name}.py').train_dataloader
        for name in ('imagenet', 'imagenet_stock')
    )
    pipelines = [loader.dataset.pop('pipeline') for loader in (ours, stock)]
    assert ours == stock
    for pipeline in pipelines:
        packed = Compose(pipeline)({'img_path': str(CHINA), 'rng': np.random.default_rng(0)})
        assert [view.shape for view in packed['inputs']] == [(3, 224, 224)] * 2
        assert {view.dtype for view in packed['inputs']} == {torch.uint8}
    for settings, transforms in zip(pipelines[0][0].views, pipelines[1][1].transforms, strict=True):
        view, steps = View(**settings), {step.type: step for step in transforms}
        jitter = steps['RandomApply'].transforms[0]
        described = {
            'size': (steps['RandomResizedCrop'].scale,) * 2,
            'flip': steps['RandomFlip'].prob,
            'jitter': steps['RandomApply'].prob,
            'grayscale': steps['RandomGrayscale'].prob,
            'blur': steps['GaussianBlur'].prob,
            'sigma': steps['GaussianBlur'].magnitude_range,
            'solarize': steps['Solarize'].prob if 'Solarize' in steps else 0.0,
            **{name: jitter[name] for name in ('brightness', 'contrast', 'saturation', 'hue')},
        }
        assert described == {name: getattr(view, name) for name in described}


class Watch(Hook):
    """Note the iterations that stepped, and those that moved the target."""

    priority = 'LOWEST'

    def __init__(self):
        self.stepped, self.moved, self.losses = [], [], []

    def before_train(self, runner):
        self.last = runner.model.target_neck.fc1.weight.clone()
        runner.optim_wrapper.optimizer.register_step_post_hook(
            lambda *_: self.stepped.append(runner.iter)
        )

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        weight = runner.model.target_neck.fc1.weight
        if not torch.equal(weight, self.last):
            self.moved.append(runner.iter)
        self.last = weight.clone()
        self.losses.append(outputs['loss'].item())


def watched_training(config: Config) -> Watch:
    kind, watch = RUNNERS.get(config.get('runner_type', 'ttl_mm.Runner')), Watch()
    runner = kind.from_cfg(config)
    runner.register_hook(watch)
    runner.train()
    return watch


def test_two_optimizer_steps_of_the_main_recipe(tmp_path):
    """At full width; test_baselines.py trains a narrow network by the other recipes."""
    write_images(tmp_path, 22, 64, 64)
    config = on_cpu(read('ttl_r50_8xb104_200e'))
    config.model.online_sizes, config.model.target_sizes = (16, 24), (20, 24)
    loader = config.train_dataloader
    loader.batch_size, loader.num_workers, loader.persistent_workers = 11, 0, False
    loader.dataset.data_root = str(tmp_path)
    for view in loader.dataset.pipeline[0].views:
        view.size //= 8
    config.train_cfg.max_epochs = 5
    config.default_hooks.checkpoint = None
    config.work_dir = str(tmp_path / 'run')
    watch = watched_training(config)
    assert watch.stepped == watch.moved == [4, 9]
    assert np.isfinite(watch.losses).all()


def test_the_config_of_the_page_trains(tmp_path):
    """As printed but for sizes, so that it takes seconds on a CPU."""
    page = (ROOT / 'docs/own_config.md').read_text()
    path = tmp_path / 'own.py'
    path.write_text(re.search(r'```python\n(.*?)```', page, re.DOTALL)[1])
    views = 'train_dataloader.dataset.pipeline.0.views'
    options = {
        '+model.online_sizes': (24, 32),
        '+model.target_sizes': (24, 32),
        'train_dataloader.batch_size': 11,
        'train_dataloader.num_workers': 0,
        'train_dataloader.dataset.data_root': str(make_images(tmp_path / 'images', 22)),
        f'{views}.0.size': 32,
        f'{views}.1.size': 32,
        'train_cfg.max_epochs': 2,
        '+default_hooks.checkpoint': None,
        '+work_dir': str(tmp_path / 'work'),
        '+log_level': 'ERROR',
    }
    watch = watched_training(read_config(path, options))
    assert watch.stepped == watch.moved == [0, 1, 2, 3]
