import pytest

from ttl_mm import models
from ttl_mm.registry import MODELS, WEIGHT_INITIALIZERS


def test_every_public_name_is_found_once_it_is_asked_for():
    assert sorted(models._MODULES) == sorted(models.__all__)
    for name in models.__all__:
        assert getattr(models, name).__name__ == name
        assert getattr(models, name).__module__ == f'ttl_mm.models.{models._MODULES[name]}'
    assert set(models.__all__) <= set(dir(models))
    with pytest.raises(AttributeError, match="no attribute 'TLAlg'"):
        models.TLAlg  # noqa: B018


def test_every_public_class_can_be_named_by_a_config():
    classes = {name for name in models.__all__ if isinstance(getattr(models, name), type)}
    found = {name for name in classes if MODELS.get(name) or WEIGHT_INITIALIZERS.get(name)}
    assert found == classes
