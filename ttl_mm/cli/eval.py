"""``ttl eval``: judge a checkpoint by its frozen features."""

import argparse

from ttl_mm.cli._options import add_out, add_renamed, add_shared

HELP = 'judge frozen features: kNN, linear probe, low-shot SVM, pictures'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        'source',
        nargs='+',
        metavar='FEATURES_OR_CHECKPOINT',
        help='a checkpoint (with --data), or a feature file each to train and to test on',
    )
    add_shared(parser, '--data', help='folder of classes or of splits, or a config')
    parser.add_argument('--knn', action='store_true', help='weighted kNN')
    parser.add_argument('--linear', action='store_true', help='logistic regression, no penalty')
    parser.add_argument('--lowshot', action='store_true', help='SVM on 1 to 96 images per class')
    add_renamed(parser, '--reid', '`ttl reid eval CHECKPOINT --data DIR`')
    parser.add_argument(
        '--neighbors',
        type=int,
        nargs='+',
        metavar='N',
        help='neighbors that vote in kNN (default: 10 20 100 200)',
    )
    add_renamed(parser, '--k', '--neighbors')
    parser.add_argument(
        '--temperature',
        type=float,
        nargs='+',
        metavar='T',
        help='temperature of their votes (default: 0.07)',
    )
    parser.add_argument('--tsne', action='store_true', help='draw a t-SNE map of the test features')
    parser.add_argument('--confusion', action='store_true', help='draw the confusion matrix')
    add_shared(parser, '--config', help='config of the model, if its shapes do not determine it')
    parser.add_argument(
        '--stages',
        type=int,
        nargs='+',
        default=[4],
        metavar='N',
        help='stages of the network to extract, from 1 to 4 (default: 4)',
    )
    parser.add_argument(
        '--stage', type=int, metavar='N', help='stage to evaluate (default: the last extracted one)'
    )
    add_shared(parser, '--size')
    add_shared(parser, '--batch-size', default=128, help='images at once (default: 128)')
    parser.add_argument('--workers', type=int, default=2, help='processes that load images')
    parser.add_argument('--device', help='such as cuda:1 or cpu (default: a GPU if there is one)')
    add_out(
        parser,
        'DIR',
        'features, figures.json and pictures',
        'one below work_dirs/eval, named after checkpoint and data',
    )


def run(args: argparse.Namespace) -> None:
    import ttl_mm.registry  # noqa: F401  isort: skip
    from ttl_mm.evaluation.run import evaluate_checkpoint

    options = dict(vars(args))
    for name in ('command', 'run'):  # of the command line itself
        options.pop(name)
    options['k'] = options.pop('neighbors')
    chosen = [name for name in ('knn', 'linear', 'lowshot') if options.pop(name)]
    evaluate_checkpoint(**options, protocols=chosen or ['knn', 'linear'])
