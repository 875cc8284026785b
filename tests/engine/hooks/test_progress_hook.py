from types import SimpleNamespace

from mmengine.logging import MessageHub
from torch.utils.data import DataLoader

from tests.helpers.toy_run import log_file
from ttl_mm.engine import ProgressHook
from ttl_mm.engine.state.run_ranks import share


def test_speed_and_waiting_follow_from_the_timer():
    hub, loader = MessageHub('progress'), DataLoader(range(48), batch_size=24)
    loop = SimpleNamespace(ranks=share(1, 0, 1))
    runner = SimpleNamespace(
        message_hub=hub, train_dataloader=loader, train_loop=loop, optim_wrapper=None, seed=0
    )
    hook = ProgressHook()
    hook.before_train(runner)
    for seconds, waiting in ((0.5, 0.1), (2.0, 1.5)):
        hub.update_scalar('train/time', seconds)
        hub.update_scalar('train/data_time', waiting)
        hook.after_train_iter(runner, 0)
    assert hub.get_scalar('train/images_per_s').data[0].tolist() == [48, 12]
    assert hub.get_scalar('train/data_wait').data[0].tolist() == [0.2, 0.75]


def test_a_config_without_the_timer_trains(tmp_path, toy):
    codes = toy(more='default_hooks.update(timer=None)')
    assert codes == [0], log_file(tmp_path / 'work').read_text()[-3000:]
