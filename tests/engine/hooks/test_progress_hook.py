from tests.helpers.toy_run import run, write_config


def test_a_config_without_the_timer_trains(tmp_path, images):
    more = '\ndefault_hooks.update(timer=None)\n'
    assert run(write_config(tmp_path / 'config.py', images, more=more), tmp_path / 'work') == [0]
