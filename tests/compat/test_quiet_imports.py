import sys
import warnings

from ttl_mm.compat.quiet_imports import import_quietly

MODULE = """
import warnings
print('Could not import OneDL')
print('something else')
warnings.warn('Fail to import ``MultiScaleDeformableAttention`` from ``mmcv.ops``')
warnings.warn('another warning')
"""


def test_only_the_known_noise_is_left_out(tmp_path, monkeypatch, capsys):
    (tmp_path / 'noisy_module.py').write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter('always')
        import_quietly('noisy_module')
    assert 'noisy_module' in sys.modules
    assert capsys.readouterr().out == 'something else\n'
    assert [str(w.message) for w in seen] == ['another warning']
