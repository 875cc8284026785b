"""The one exception that reaches a user as a sentence instead of a traceback."""

from collections.abc import Mapping


class UserError(Exception):
    """Something the user can correct. The message names the value found and the remedy."""


def refuse_options(owner: str, given: Mapping[str, object], remedies: Mapping[str, str]) -> None:
    """Refuse options that ``owner`` does not have; ``remedies`` tells what replaces an old one."""
    for name, value in given.items():
        if name in remedies:
            raise UserError(f'{name}={value!r}: {remedies[name]}')
        raise TypeError(f'{owner} has no option {name!r}.')
