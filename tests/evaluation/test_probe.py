import pytest
from sklearn.neighbors import KNeighborsClassifier
from torch import nn

from tests.helpers.digits_run import DIGITS
from tests.helpers.paths import ROOT
from ttl_mm.errors import UserError
from ttl_mm.evaluation.data import open_splits
from ttl_mm.evaluation.model import load_model
from ttl_mm.evaluation.probe import KNN, LINEAR, Probe, probe_of


@pytest.fixture
def model(checkpoint):
    model = nn.Module()
    model.backbone, model.data_preprocessor, _ = load_model(str(checkpoint))
    return model


def test_accuracies_are_those_of_classifiers_on_the_features(model, folder):
    splits = open_splits(str(folder), 32)[0]
    probe = Probe(splits['train'], splits['test'], neighbors=1, batch_size=5)
    found = probe.measure(model)
    train, labels = (x.double().numpy() for x in probe.features(model, 'train'))
    test, truth = (x.double().numpy() for x in probe.features(model, 'test'))
    nearest = KNeighborsClassifier(1, metric='cosine').fit(train, labels)
    assert found == {KNN: pytest.approx(100 * nearest.score(test, truth))}
    assert probe.measure(model, linear=True).keys() == {KNN, LINEAR}


def test_images_are_chosen_evenly():
    probe = Probe(range(10), range(7), max_train=4)
    assert probe.chosen('train') == [0, 2, 5, 7]
    assert probe.chosen('test') == list(range(7))  # all of them
    with pytest.raises(UserError, match='batch_size=0'):
        Probe([], [], batch_size=0)


def test_the_probe_of_a_recipe_is_found_or_missed_with_its_name():
    probe = probe_of(DIGITS)
    assert [len(probe.datasets[name]) for name in ('train', 'test')] == [1200, 597]
    with pytest.raises(UserError, match=r'ttl_r50_8xb104_200e\.py has no default_hooks\.probe'):
        probe_of(ROOT / 'configs/ttl_r50_8xb104_200e.py')
