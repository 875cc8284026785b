import pytest

from tests.helpers.bad_image import read_bad_image_in_worker
from ttl_mm.errors import UserError, plain_sentence, printable


def test_what_steers_a_terminal_is_shown_as_text():
    assert printable('ü 😀 plain\n\t') == 'ü 😀 plain\n\t'
    assert printable('\x1b[2J\x07\u202e\udcff\x9b') == r'\x1b[2J\x07\u202e\udcff\x9b'
    assert str(UserError('a\x1b]0;title\x07')) == r'a\x1b]0;title\x07'


def test_the_error_of_a_worker_is_its_sentence():
    with pytest.raises(UserError) as caught:
        read_bad_image_in_worker()
    assert str(caught.value) == "<bytes>: not a known image, it starts with b'<html>'"
    assert plain_sentence('Caught by chance') == 'Caught by chance'
