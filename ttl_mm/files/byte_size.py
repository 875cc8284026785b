"""Numbers of bytes as people write them."""

import re

_UNITS = {'M': 10**6, 'G': 10**9, 'T': 10**12}


def parse_bytes(text: str) -> int:
    """A number of bytes such as 500MB or 2.5GB; ValueError if it is none.

    Example:
        >>> parse_bytes('1.5GB')
        1500000000
    """
    found = re.fullmatch(r'(\d{1,12}(?:\.\d{1,6})?) ?([MGT])B', text.upper())
    if not found:
        raise ValueError(f'{text!r} is no size: write it as 500MB or 1GB')
    return int(float(found[1]) * _UNITS[found[2]])
