"""model-index.yml and the metafiles: every path exists, every key is known, every figure is either
published (and is in the paper) or measured (and says how).
"""

import re
from pathlib import Path

import pytest
import yaml
from mmengine.config import Config
from modelindex.load_model_index import load

from tests.helpers.paths import ROOT
from ttl_mm.report.paper import published
from ttl_mm.zoo.cache import status
from ttl_mm.zoo.manifest import read_manifest

INDEX = yaml.safe_load((ROOT / 'model-index.yml').read_text())
METAFILES = {path: yaml.safe_load((ROOT / path).read_text()) for path in INDEX['Import']}
MODELS = [(path, model) for path, file in METAFILES.items() for model in file['Models']]
MODEL_KEYS = {'Name', 'In Collection', 'Config', 'Metadata', 'Results', 'Weights'}
RESULT_KEYS = {
    'published': {'Task', 'Dataset', 'Metrics', 'Source', 'Table', 'Row'},
    'measured': {'Task', 'Dataset', 'Metrics', 'Source', 'Command'},
}


def test_the_format_is_right_and_every_recipe_has_one_entry():
    index = load(str(ROOT / 'model-index.yml'))
    index.check(silent=False)
    index.build_models_with_collections()
    assert len(list(index.models)) == len(MODELS)
    found = [*ROOT.glob('configs/**/metafile.yml'), *ROOT.glob('projects/*/metafile.yml')]
    assert sorted(METAFILES) == sorted(str(path.relative_to(ROOT)) for path in found)
    for metafile in METAFILES:
        folder = (ROOT / metafile).parent
        folder = folder if metafile.startswith('configs') else folder / 'configs'
        recipes = sorted(str(path.relative_to(ROOT)) for path in folder.glob('*.py'))
        assert sorted(m['Config'] for path, m in MODELS if path == metafile) == recipes


def test_catalogs_list_every_recipe_with_its_figures():
    """Beside each metafile of configs lies a README with one row per recipe."""
    for metafile, content in METAFILES.items():
        if not metafile.startswith('configs'):
            continue
        readme = (ROOT / metafile).with_name('README.md').read_text()
        rows = dict(re.findall(r'^\| \[`(.+?)`\].*\| (.*) \|$', readme, re.MULTILINE))
        assert rows.keys() == {model['Name'] for model in content['Models']}
        for model in content['Models']:
            metrics = [m for result in model.get('Results', ()) for m in result['Metrics'].items()]
            assert rows[model['Name']] == ('; '.join(f'{k}: {v}' for k, v in metrics) or 'not run')


def check_origin(result: dict) -> None:
    """A figure is in a table of the paper, or the command that measured it is named."""
    source = result['Source']
    assert result.keys() == RESULT_KEYS[source]
    for metric, value in result['Metrics'].items():
        assert metric.endswith(f'({source})')
        if source == 'published':
            after = re.search(r'after (\d+) epochs', metric)
            only = {'epochs': int(after[1])} if after else {}
            cells = published(result['Table'], ours=True, variant=result['Row'], **only)
            assert value in [cell.value for cell in cells]


@pytest.mark.parametrize(('metafile', 'model'), MODELS, ids=[m['Name'] for _, m in MODELS])
def test_entry_says_what_the_config_says(metafile, model):
    assert model.keys() <= MODEL_KEYS
    assert model['Name'] == Path(model['Config']).stem
    collections = {c['Name']: c for c in METAFILES[metafile]['Collections']}
    paths = [collections[model['In Collection']].get('README'), model.get('Weights')]
    assert all((ROOT / path).is_file() for path in paths if path)
    for result in model.get('Results', ()):
        check_origin(result)
    config = Config.fromfile(ROOT / model['Config'])
    metadata = model.get('Metadata')
    if metadata is None:  # a recipe that only tests
        assert config.get('train_cfg') is None
        return
    length = {'Epochs': 'max_epochs', 'Iterations': 'max_iters'}
    keys = {key for key, name in length.items() if name in config.train_cfg}
    assert metadata.keys() == {'Training Data', 'Batch Size'} | keys
    assert all(metadata[key] == config.train_cfg[length[key]] for key in keys)
    accumulation = config.optim_wrapper.get('accumulative_counts', 1)
    assert metadata['Batch Size'] == config.auto_scale_lr.base_batch_size * accumulation


@pytest.mark.parametrize('entry', read_manifest().values(), ids=lambda entry: entry.name)
def test_manifest_entry_agrees_with_the_metafiles(entry, tmp_path):
    assert entry.config is None or (ROOT / entry.config).is_file()
    assert entry.shipped is None or status(entry, tmp_path) == 'ok'
    if entry.sha256 is not None:
        assert Path(entry.file).stem.endswith(entry.sha256[:8])
    for result in entry.results:
        origin = {'published': 'by', 'measured': 'command'}[result['source']]
        assert result.keys() - {'data'} == {'metric', 'value', 'source', origin}
    if entry.shipped is not None:
        (model,) = (m for _, m in MODELS if m['Config'] == entry.config and 'Weights' in m)
        assert ROOT / model['Weights'] == entry.shipped
        metrics = {k: v for r in model['Results'] for k, v in r['Metrics'].items()}
        assert metrics == {f'{r["metric"]} ({r["source"]})': r['value'] for r in entry.results}
        assert {r['Command'] for r in model['Results']} == {r['command'] for r in entry.results}
