"""The commands of ``ttl`` as argparse knows them."""

import argparse
from collections.abc import Iterator


def leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers of all commands that have no further ones below them."""
    below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    for action in below:
        for child in action.choices.values():
            yield from leaves(child)
    if not below:
        yield parser
