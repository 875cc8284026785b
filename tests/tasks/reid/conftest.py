import pytest


@pytest.fixture(autouse=True)
def no_shared_cache(tmp_path_factory, monkeypatch):
    """Folder scans are cached outside of the test's folder otherwise."""
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path_factory.mktemp('cache')))
