"""``ttl zoo``: list, fetch, verify and make published checkpoints."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from ttl_mm.arguments import input_file, number, output_folder, weights
from ttl_mm.arguments import text as some_text
from ttl_mm.cli._options import FLAG, add_out, add_overwrite, add_renamed, add_shared
from ttl_mm.errors import UserError, printable

HELP = 'list, fetch, verify and make published checkpoints'


def add_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add('--manifest', type=input_file, metavar='FILE', help='use this manifest instead of ours')
    text = 'cache folder (default: $TTL_ZOO_CACHE)'
    add('--cache', type=output_folder, metavar='DIR', help=text)
    actions = parser.add_subparsers(dest='action', required=True, metavar='ACTION')
    actions.add_parser('list', help='names, sizes, what each file is for, results')
    get = actions.add_parser('get', help='fetch files, check them and print their paths')
    get.add_argument('names', nargs='+', metavar='NAME', help='entries of `ttl zoo list`')
    text = 'give up when nothing arrives for so long (default: 30)'
    get.add_argument(
        '--timeout', type=number(0, 86400, above=True), default=30.0, metavar='SECONDS', help=text
    )
    text = 'fetch a file that has no published hash, and pin the hash it then has'
    get.add_argument('--allow-unhashed', **FLAG, help=text)
    measure = actions.add_parser('measure', help='measure an entry again, as its recipe does')
    measure.add_argument('name', metavar='NAME', help='an entry of `ttl zoo list`')
    add_shared(measure, '--config', help="recipe (default: the entry's own)")
    publish = actions.add_parser('publish', help='make a file for the zoo out of a checkpoint')
    text = 'a checkpoint of a run'
    publish.add_argument('checkpoint', type=weights, metavar='CHECKPOINT', help=text)
    publish.add_argument('--name', required=True, help='its name in the zoo')
    add_out(publish, 'DIR', 'the file and its manifest entry', '.')
    add_overwrite(publish)
    kinds = ('backbone', 'networks')
    publish.add_argument('--kind', default=kinds[0], choices=kinds, help='what to keep')
    publish.add_argument('--half', **FLAG, help='store float16')
    publish.add_argument('--safetensors', **FLAG, help='write .safetensors instead of .pth')
    publish.add_argument('--about', default='', help='one line: what was trained on what')
    publish.add_argument('--license', default='Apache-2.0', help='default: Apache-2.0')
    add_renamed(publish, '--licence', '--license')
    text = 'figures.json of `ttl eval` about this checkpoint, for the entry and the card'
    publish.add_argument(
        '--figures', nargs='+', default=[], type=input_file, metavar='FILE', help=text
    )
    add_shared(publish, '--config', type=some_text, help='path of its config in the repository')
    verify = actions.add_parser('verify', help='check the cache; exits 1 if a file is damaged')
    verify.add_argument('names', nargs='*', metavar='NAME', help='default: all')


def run(args: Namespace) -> int | None:
    from ttl_mm.zoo.cache import cache_folder

    args.cache = Path(args.cache) if args.cache else cache_folder()
    actions = {'list': _list, 'get': _get, 'verify': _verify,
               'measure': _measure, 'publish': _publish}  # fmt: skip
    return actions[args.action](args)


def _list(args: Namespace) -> None:
    from ttl_mm.zoo.cache import status
    from ttl_mm.zoo.manifest import KINDS, read_manifest

    for entry in read_manifest(args.manifest).values():
        size = 'size unknown' if entry.size is None else f'{entry.size / 1e6:.1f} MB'
        state = status(entry, args.cache)
        print(f'{entry.name}  ({size}, {"here" if state == "ok" else state})')
        print(printable(f'    {entry.about}'))
        print(printable(f'    {entry.kind}: {KINDS[entry.kind]}; license: {entry.license}'))
        print(printable(f'    images: {entry.images}'))
        if entry.sha256 is None:
            print('    no published hash: needs --allow-unhashed, is pinned at the first fetch')
        for result in entry.results:
            by = result.get('command') or result.get('by', '')
            shown = f'    {result["metric"]} {result["value"]} ({result["source"]}: {by})'
            print(printable(shown))


def _get(args: Namespace) -> None:
    from ttl_mm.checkpoint.load import fetch_checkpoint
    from ttl_mm.zoo.manifest import find_entry

    for entry in [find_entry(name, args.manifest) for name in args.names]:
        options = {'allow_unhashed': args.allow_unhashed, 'timeout': args.timeout}
        print(fetch_checkpoint(entry, args.cache, **options))


def _verify(args: Namespace) -> int:
    from ttl_mm.zoo.cache import status
    from ttl_mm.zoo.manifest import find_entry, read_manifest

    entries = [find_entry(name, args.manifest) for name in args.names]
    bad = False
    for entry in entries or read_manifest(args.manifest).values():
        state = status(entry, args.cache)
        print(f'{entry.name}  {state}')
        bad |= state.startswith('damaged') or bool(args.names and state != 'ok')
    if bad:
        print('`ttl zoo get NAME` replaces a damaged file and fetches a missing one.')
    return int(bad)


def _measure(args: Namespace) -> None:
    from ttl_mm.checkpoint.load import fetch_checkpoint
    from ttl_mm.evaluation.probe import measure_checkpoint
    from ttl_mm.zoo.manifest import find_entry

    entry = find_entry(args.name, args.manifest)
    config = args.config or entry.recipe
    if config is None:
        raise UserError(
            f'the recipe of {entry.name} is not here: name it with --config. A recipe is Python '
            'and runs, so the one that a foreign manifest names is not taken.'
        )
    path = fetch_checkpoint(entry, args.cache)
    for metric, value in measure_checkpoint(path, str(config)).items():
        print(f'{metric} {value:.2f}')


def _publish(args: Namespace) -> None:
    from ttl_mm.export.publish import publish

    path, entry = publish(
        args.checkpoint,
        args.name,
        args.out,
        kind=args.kind,
        half=args.half,
        suffix='.safetensors' if args.safetensors else '.pth',
        about=args.about,
        license=args.license,
        config=args.config,
        figures=args.figures,
        overwrite=args.overwrite,
    )
    print(f'{path}  ({entry["size"]} bytes, sha256 {entry["sha256"]})')
    print(f'manifest entry: {path.with_suffix(".json")}, model card: {path.with_suffix(".md")}')
