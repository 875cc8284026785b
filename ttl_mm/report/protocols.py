"""By which protocol a run measured what it logged."""

from ttl_mm.report.dumped_config import lookup
from ttl_mm.report.run import Run

# beginning of a logged metric of detection: what it measures; the longest that fits counts
DETECTION = {
    'coco/': 'COCO AP (%)',
    'voc/': 'VOC2007 11-point AP (%)',
    'voc/coco101_': 'AP (%) on VOC by the rules of COCO',
}


def run_protocols(run: Run) -> set[str]:
    """Protocols of an evaluation run; empty for pre-training."""
    keys = {key for record in run.records for key in record}
    named = [hook_protocol(run.config), *(protocol_of(run.config, key) for key in keys)]
    return {protocol for protocol in named if protocol}


def protocol_of(config: dict, key: str) -> str | None:
    """The protocol by which a run with this config measured ``key``; None where it is unknown."""
    if family := detection_family(key):
        recipe = {
            'model': lookup(config, 'model', 'type'),
            'iterations': lookup(config, 'train_cfg', 'max_iters'),
            'epochs': lookup(config, 'train_cfg', 'max_epochs'),
            'learning rate': lookup(config, 'optim_wrapper', 'optimizer', 'lr'),
        }
        known = [f'{name} {value}' for name, value in recipe.items() if value]
        return ', '.join([f'detection, {family}', *known])
    if key.startswith('reid/'):
        return 're-identification by tools/test.py'
    return hook_protocol(config) if key.startswith('accuracy/') else None


def hook_protocol(config: dict) -> str | None:
    """The protocol that a run's ResultHook wrote, or will write."""
    if 'result_protocol' in config:
        return config['result_protocol']
    hooks = [*(config.get('default_hooks') or {}).values(), *(config.get('custom_hooks') or ())]
    for hook in hooks:
        if str(lookup(hook, 'type')).endswith('ResultHook'):
            return hook['protocol']
    return None


def detection_family(key: str) -> str:
    """What a logged metric of detection measures; '' for any other metric."""
    fitting = [start for start in DETECTION if key.startswith(start)]
    return DETECTION[max(fitting, key=len)] if fitting else ''
