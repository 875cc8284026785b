"""The one exception that reaches a user as a sentence instead of a traceback."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

_LAST_ERROR = re.compile(r'^[\w.]+: ', re.MULTILINE)


class UserError(Exception):
    """Something the user can correct. The message names the value found and the remedy."""

    exit_code = 2
    prefix = 'error: '  # what stands before the message where no command name does

    def __str__(self) -> str:
        return plain_sentence(super().__str__())


def plain_sentence(message: str) -> str:
    """The message alone, if a worker process wrapped it into its traceback; safe to print."""
    if message.startswith('Caught ') and '\nOriginal Traceback' in message:
        *_, last = [None, *_LAST_ERROR.finditer(message)]
        message = message[last.end() :].strip() if last else message
    return printable(message)


def counted(number: int, one: str, many: str = '') -> str:
    """A number and its noun; ``many`` is the plural where it is not made with an s.

    >>> counted(1, 'image'), counted(2000, 'image'), counted(2, 'class', 'classes')
    ('1 image', '2,000 images', '2 classes')
    """
    return f'{number:,} {one if number == 1 else many or one + "s"}'


def printable(text: str) -> str:
    """The text with everything that could steer a terminal, or cannot be encoded, as escapes."""
    if text.isprintable():
        return text
    shown = (c if c.isprintable() or c in '\n\t' else c.encode('unicode_escape') for c in text)
    return ''.join(c if isinstance(c, str) else c.decode('ascii') for c in shown)


def refuse_options(owner: str, given: Mapping[str, object], remedies: Mapping[str, str]) -> None:
    """Refuse options that ``owner`` does not have; ``remedies`` tells what replaces an old one."""
    for name, value in given.items():
        if name in remedies:
            raise UserError(f'{name}={value!r}: {remedies[name]}')
        raise TypeError(f'{owner} has no option {name!r}.')


def did_you_mean(name: str, known: Iterable[object]) -> str:
    """' Did you mean 'lr'?' if one of the known names is near, else nothing."""
    close = get_close_matches(name, [str(key) for key in known], n=1, cutoff=0.5)
    return f' Did you mean {close[0]!r}?' if close else ''
