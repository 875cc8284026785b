from types import SimpleNamespace

from mmengine.logging import MessageHub

from ttl_mm.checkpoint.plain_types import keep_plain_types
from ttl_mm.engine.state.measured import curve_of, remember


def test_a_curve_survives_a_checkpoint_and_forgets_what_is_repeated():
    runner = SimpleNamespace(message_hub=MessageHub('measured'))
    assert curve_of(runner, 'x') == []
    for step, value in ((0, 1.0), (5, 2.0), (9, 3.0), (5, 2.5)):  # resumed before step 5
        remember(runner, 'x', step, value)
    assert curve_of(runner, 'x') == [(0, 1.0), (5, 2.5)]
    saved = keep_plain_types(dict(runner.message_hub.runtime_info))
    resumed = SimpleNamespace(message_hub=MessageHub('resumed'))
    resumed.message_hub.update_info_dict(saved)
    remember(resumed, 'y', 0, 4.0)
    assert curve_of(resumed, 'x') == [(0, 1.0), (5, 2.5)]
    assert curve_of(resumed, 'y') == [(0, 4.0)]
