"""``ttl analyze``: under- and over-clustering of checkpoints on labeled images."""

import argparse
from pathlib import Path

from ttl_mm.arguments import integer, weights
from ttl_mm.cli._options import FLAG, add_out, add_overwrite, add_renamed, add_shared
from ttl_mm.errors import UserError
from ttl_mm.outputs import check_folder, mark_folder

WRITTEN = ('index.html', 'analysis.json', '*.png')
HELP = 'measure under- and over-clustering of checkpoints, and suggest k'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text = 'feature files of `ttl eval`, or checkpoints (with --data)'
    add('sources', nargs='+', type=weights, metavar='FEATURES_OR_CHECKPOINT', help=text)
    add_shared(parser, '--data', help='images in one sub-folder per class')
    text = 'images of the batches whose negatives are ranked (default: 104)'
    add_shared(parser, '--batch-size', default=104, help=text)
    text = 'deputies to measure: a rank or a window (default: 1, 5, 2..10 and m/2)'
    add('--ranks', nargs='+', metavar='K|LO..HI', help=text)
    text = 'measure what the loss compares, predictions and target projections, not the backbone'
    add('--head', **FLAG, help=text)
    add_shared(parser, '--config', help='config of the model; needed with --head')
    add_shared(parser, '--size')
    add('--batches', type=integer(1), default=500, metavar='N', help='batches drawn (default: 500)')
    add_shared(parser, '--risk')
    add_out(parser, 'DIR', 'the page, its figures and analysis.json', 'analysis')
    add_overwrite(parser)
    add_renamed(parser, '--batch', '--batch-size')


def run(args: argparse.Namespace) -> None:
    import ttl_mm.registry  # noqa: F401  isort: skip
    from ttl_mm.evaluation.sources import open_source
    from ttl_mm.gauges.analysis import analyze_features
    from ttl_mm.report.analysis_page import write_analysis
    from ttl_mm.report.logs import distinct_names

    ranks = [parse_ranks(text) for text in args.ranks] if args.ranks else None
    check_folder(args.out, 'ttl analyze', WRITTEN, args.overwrite)
    sources = {Path(source.replace('://', '/')): source for source in args.sources}
    analyses = {}
    for name, source in zip(distinct_names(list(sources)), sources.values()):
        features, labels, query, key = open_source(
            source, Path(args.out), args.data, args.config, args.head, args.size
        )
        numbers = (args.batch_size, ranks, args.batches, args.risk)
        analyses[name] = a = analyze_features(features, labels, *numbers, query=query, key=key)
        print(
            f'{name}: class divergence {a.divergence:.3f}, effective rank {a.effective_rank:.1f}, '
            f'hardest negative false {a.rates[0]:.1%}, first rank at chance {a.measured_k}, '
            f'smallest safe k {a.safe_k}'
        )
    print(write_analysis(analyses, args.out).resolve())
    mark_folder(args.out, 'ttl analyze')


def parse_ranks(text: str) -> tuple[int, int]:
    """'5' is rank 5, '2..10' are ranks 2 to 10."""
    low, dots, high = text.partition('..')
    try:
        ranks = int(low), int(high if dots else low)
    except ValueError:
        ranks = (0, 0)
    if not 1 <= ranks[0] <= ranks[1]:
        raise UserError(f'--ranks {text}: use a rank such as 5, or a window such as 2..10.')
    return ranks
