"""``ttl eval``: judge a checkpoint by its frozen features."""

import argparse

from ttl_mm.errors import UserError

HELP = 'judge frozen features: kNN, linear probe, low-shot SVM, re-identification, pictures'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        'source',
        nargs='+',
        metavar='FEATURES_OR_CHECKPOINT',
        help='a checkpoint (with --data), or a feature file each to train and to test on',
    )
    parser.add_argument('--data', metavar='DIR', help='folder of classes, of splits, or a config')
    parser.add_argument('--knn', action='store_true', help='weighted kNN')
    parser.add_argument('--linear', action='store_true', help='logistic regression, no penalty')
    parser.add_argument('--lowshot', action='store_true', help='linear SVM on 1 to 96 per class')
    parser.add_argument(
        '--reid', action='store_true', help='re-identification: --data is SYSU-30k or Market-1501'
    )
    parser.add_argument(
        '--reference-flip', action='store_true', help="with --reid: the release's flip weighting"
    )
    parser.add_argument(
        '--queries', type=int, nargs='+', default=(), help='with --reid: those of the picture'
    )
    parser.add_argument('--k', type=int, nargs='+', help='neighbours (default: 10 20 100 200)')
    parser.add_argument('--temperature', type=float, nargs='+', help='of the votes (default: 0.07)')
    parser.add_argument('--tsne', action='store_true', help='draw a t-SNE map of the test features')
    parser.add_argument('--confusion', action='store_true', help='draw the confusion matrix')
    parser.add_argument('--config', help='the config of the model, if its shapes do not tell')
    parser.add_argument('--stages', type=int, nargs='+', default=[4], help='extract these (1 to 4)')
    parser.add_argument('--stage', type=int, help='judge this one (default: the last)')
    parser.add_argument('--size', type=int, help='of the square input (default: 224, or 32)')
    parser.add_argument('--batch-size', type=int, default=128)
    parser.add_argument('--workers', type=int, default=2, help='processes that load images')
    parser.add_argument('--device', help='such as cuda:1 or cpu (default: a GPU if there is one)')
    parser.add_argument('--out', metavar='DIR', help='for features, figures and pictures')


def run(args: argparse.Namespace) -> None:
    import ttl_mm.registry  # noqa: F401  isort: skip
    from ttl_mm.evaluation.run import evaluate

    options = dict(vars(args))
    for name in ('command', 'run'):  # of the command line itself
        options.pop(name)
    if options.pop('reid'):
        return run_reid(args)
    for name in ('reference_flip', 'queries'):
        if options.pop(name):
            raise UserError(f'--{name.replace("_", "-")} belongs to --reid: add that.')
    chosen = [name for name in ('knn', 'linear', 'lowshot') if options.pop(name)]
    evaluate(**options, protocols=chosen or ['knn', 'linear'])


def run_reid(args: argparse.Namespace) -> None:
    """Re-identification has queries and a gallery in place of classes, and figures of its own."""
    from ttl_mm.tasks.reid.evaluate import evaluate_reid

    others = ('knn', 'linear', 'lowshot', 'k', 'temperature', 'tsne', 'confusion', 'stage', 'size')
    if given := [f'--{name}' for name in others if getattr(args, name)]:
        raise UserError(f'{", ".join(given)} and --reid do not go together: run them apart.')
    if len(args.source) > 1:
        raise UserError(f'{len(args.source)} files given: --reid takes one.')
    evaluate_reid(
        args.source[0],
        args.data,
        args.out,
        reference_flip=args.reference_flip,
        queries=args.queries,
        config=args.config,
        device=args.device,
        batch_size=args.batch_size,
        workers=args.workers,
    )
