import json
import math

import pytest

from ttl_mm.files.plain_json import MAX_DEPTH, parse_json, read_json


def test_json_is_read_as_by_the_standard_library():
    value = {'a': [1, -2.5, None, True, 'text ] } "[{'], 'b' * 100: {'c': [[]] * 100}}
    for text in (
        json.dumps(value),
        json.dumps(value).encode(),
        b'\xef\xbb\xbf' + json.dumps(value).encode(),
    ):
        assert parse_json(text) == value  # fmt: skip
    assert math.isnan(parse_json('NaN', allow_nan=True))


def test_what_is_too_deep_or_too_long_is_refused(tmp_path):
    nested = '[' * MAX_DEPTH + ']' * MAX_DEPTH
    assert parse_json(nested)
    for text, message in {
        f'[{nested}]': 'nested more than 64 deep',
        f'{{"a": {nested}}}': 'nested more than 64 deep',
        '["' + '[' * 200 + '", ' + nested + ']': 'nested more than 64 deep',
        '[' * 2**25: 'nested too deeply',
        '1' * 20: 'a number of 20 digits',
        f'-{"1" * 20}': 'digits',
        '[NaN]': 'NaN, which is no number',
        '{': 'Expecting',
        b'\xff': 'utf-8',
    }.items():
        with pytest.raises(ValueError, match=message):
            parse_json(text)
    assert parse_json('["' + '[' * 200 + '"]') == ['[' * 200]  # text is not nested
    (tmp_path / 'a.json').write_text('[1]')
    assert read_json(tmp_path / 'a.json') == [1]
    with pytest.raises(OSError, match='3 bytes, 2 are allowed'):
        read_json(tmp_path / 'a.json', 2)
