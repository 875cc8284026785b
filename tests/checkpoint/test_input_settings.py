import json

import torch
from mmengine.config import Config

from tests.helpers.checkpoints import make_resnet
from tests.helpers.paths import ROOT
from ttl_mm.checkpoint.input_settings import InputSettings, input_settings, read_input_settings
from ttl_mm.evaluation.model import load_model
from ttl_mm.export import export_backbone

IMAGENET = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)


def test_a_checkpoint_of_a_run_tells_size_and_pixels_of_its_views():
    for name, expected in {
        'ttl_r50_8xb104_200e': (224, *IMAGENET),
        'imagenet/ttl_multicrop_r50_in1k_8xb104_200e': (224, *IMAGENET),
        'digits/ttl_ranks2-10_r18_digits_1xb32_40e': (16, (78,) * 3, (96,) * 3),
    }.items():
        config = Config.fromfile(ROOT / 'configs' / f'{name}.py').to_dict()
        text = json.dumps(config, default=str)
        assert input_settings({'ttl_mm': {'config': text}}) == InputSettings(*expected)


def test_views_that_grow_tell_their_largest_size():
    views = [dict(size=32, later_sizes=[(20, 48), (40, (56, 64))]), dict(size=24)]
    config = {
        'model': {'data_preprocessor': {'mean': [1, 2, 3], 'std': [4, 5, 6]}},
        'train_dataloader': {'dataset': {'pipeline': [{'type': 'RandomViews', 'views': views}]}},
    }
    found = input_settings({'ttl_mm': {'config': json.dumps(config)}})
    assert found == InputSettings(64, (1, 2, 3), (4, 5, 6))


def test_what_an_export_says_counts_and_other_files_say_nothing():
    stated = {'size': 48, 'mean': [1, 2, 3], 'std': [4, 5, 6]}
    assert input_settings({'meta': {'input': stated}}) == InputSettings(48, (1, 2, 3), (4, 5, 6))
    bands = {'low': [0.0], 'high': [4095.0]}
    one = {'size': 48, 'mean': [1], 'std': [4], 'bands': bands}
    found = {'low': (0.0,), 'high': (4095.0,)}
    assert input_settings({'meta': {'input': one}}) == InputSettings(48, (1,), (4,), found)
    for content in ({}, {'meta': 'x'}, {'state_dict': {}}, {'ttl_mm': {'config': '{}'}}):
        assert input_settings(content) is None


def test_settings_that_no_run_can_have_had_are_not_believed():
    nan, infinity = float('nan'), float('inf')
    wrong = {
        'size': [10**6, 0, -1, infinity, '48', True, None],
        'mean': ['abc', [1, 2], [1, 2, nan], [1, 2, '3'], [1, 2, 10**9], 5],
        'std': [[0, 1, 1], [-1, 1, 1], [1, 1, infinity], 'abc', []],
        'bands': [
            {'low': [0] * 3},
            {'low': [0] * 3, 'high': [1, 1]},
            {'low': [0] * 3, 'high': [1, 1, 0]},
            {'low': [0] * 3, 'high': [1, 1, infinity]},
            {'low': [0] * 4, 'high': [1] * 4},
        ],
    }
    for key, values in wrong.items():
        for value in values:
            stated = {'size': 48, 'mean': [1, 2, 3], 'std': [4, 5, 6], key: value}
            assert input_settings({'meta': {'input': stated}}) is None, (key, value)


def test_exported_files_remember_the_settings_of_the_run(tmp_path):
    state = {f'backbone.{name}': tensor for name, tensor in make_resnet(18).state_dict().items()}
    stated = {'size': 48, 'mean': [1, 2, 3], 'std': [4, 5, 6]}
    torch.save({'meta': {'input': stated}, 'state_dict': state}, tmp_path / 'run.pth')
    for to in ('plain', 'mmpretrain', 'safetensors'):
        exported = export_backbone(tmp_path / 'run.pth', to)
        assert read_input_settings(exported) == InputSettings(48, (1, 2, 3), (4, 5, 6))
        _, preprocessor, about = load_model(str(exported), device='cpu')
        assert (about['trained_size'], preprocessor.mean.flatten().tolist()) == (48, [1, 2, 3])
