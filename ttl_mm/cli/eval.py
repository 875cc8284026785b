"""``ttl eval``: evaluate a checkpoint by its frozen features."""

import argparse

from ttl_mm.arguments import input_path, integer, number
from ttl_mm.cli._options import FLAG, NUMBERS, add_out, add_overwrite, add_renamed, add_shared

HELP = 'evaluate frozen features: kNN, linear probe, low-shot SVM, pictures'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text = 'a checkpoint (with --data), or a feature file each to train and to test on'
    add('source', nargs='+', type=source, metavar='FEATURES_OR_CHECKPOINT', help=text)
    add_shared(parser, '--data', help='folder of classes or of splits, or a config')
    add('--knn', **FLAG, help='weighted kNN')
    add('--linear', **FLAG, help='logistic regression without penalty')
    add('--lowshot', **FLAG, help='linear SVM on 1 to 96 images per class')
    add('--neighbors', **NUMBERS, help='neighbors that vote in kNN (default: 10 20 100 200)')
    add(
        '--temperature',
        **{**NUMBERS, 'type': number(0, above=True)},
        help='of their votes (default: 0.07)',
    )
    add('--tsne', **FLAG, help='draw a t-SNE map of the test features')
    add('--confusion', **FLAG, help='draw the confusion matrix')
    add_shared(parser, '--config', help='config of the model, if its shapes do not determine it')
    text = 'network, as `ttl backbones` lists it, if the checkpoint does not name it'
    add('--backbone', metavar='NAME', help=text)
    add(
        '--stages',
        **{**NUMBERS, 'type': integer(1, 4)},
        default=[4],
        help='stages to extract, from 1 to 4 (default: 4)',
    )
    add(
        '--stage',
        type=integer(1, 4),
        metavar='N',
        help='stage to evaluate (default: the last extracted)',
    )
    add_shared(parser, '--size')
    add_shared(parser, '--batch-size', default=128, help='images at once (default: 128)')
    add_shared(parser, '--workers')
    add_shared(parser, '--device')
    default = 'one below work_dirs/eval, named after checkpoint and data'
    add_out(parser, 'DIR', 'features, figures.json and pictures', default)
    add_overwrite(parser)
    add_renamed(parser, '--k', '--neighbors')
    add_renamed(parser, '--reid', '`ttl reid eval CHECKPOINT --data DIR`')


def source(value: str) -> str:
    """A type: the name of weights, a file, or a folder with feature files."""
    return value if '://' in value else input_path(value)


def run(args: argparse.Namespace) -> None:
    import ttl_mm.registry  # noqa: F401  isort: skip
    from ttl_mm.evaluation.run import evaluate_checkpoint

    options = dict(vars(args))
    for name in ('command', 'run'):  # of the command line itself
        options.pop(name)
    options['k'] = options.pop('neighbors')
    chosen = [name for name in ('knn', 'linear', 'lowshot') if options.pop(name)]
    evaluate_checkpoint(**options, protocols=chosen or ['knn', 'linear'])
