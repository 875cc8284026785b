from mmengine.config import ConfigDict

from ttl_mm.planning.optimizers import set_optimizer


def test_batch_norm_keeps_the_recipe_and_layer_norm_takes_adamw():
    recipe = {'type': 'OptimWrapper', 'optimizer': {'type': 'SGD', 'lr': 0.1, 'momentum': 0.9}}
    wrapper = ConfigDict(recipe)
    set_optimizer(wrapper, 'batch', images=104)
    assert wrapper == recipe
    for norm in ('layer', 'none'):
        wrapper = ConfigDict(recipe)
        set_optimizer(wrapper, norm, images=512)
        assert wrapper.optimizer == {'type': 'AdamW', 'lr': 1e-3, 'weight_decay': 0.05}
        assert wrapper.paramwise_cfg == {'norm_decay_mult': 0.0, 'bias_decay_mult': 0.0}
