# The data and the runtime of our own recipes, at the batch that OpenMMLab's recipes take.
_base_ = ['../../_base_/datasets/imagenet.py', '../../_base_/default_runtime.py']

train_dataloader = dict(batch_size=32)
train_cfg = dict(type='ttl_mm.EpochLoop', max_epochs=200)
env_cfg = dict(cudnn_benchmark=True)  # inputs have one size, or a few
auto_scale_lr = dict(enable=False, base_batch_size=256)
