"""Command lines: types with ranges, paths, and values that keep every character."""

import os
import socket

import pytest

from ttl_mm import arguments
from ttl_mm.arguments import Parser, add_cfg_options, integer, number, parse_value


@pytest.fixture
def refuse(capsys):
    """A function that gives a value to a type; returns the one line of the refusal."""

    def refused(kind, value):
        parser = Parser(prog='ttl x')
        parser.add_argument('--value', type=kind)
        with pytest.raises(SystemExit, match=r'^2$'):
            parser.parse_args(['--value', value])
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith('ttl x: --value: ')
        assert line.endswith(' See `ttl x --help`.')
        return line

    return refused


def test_numbers_have_ranges(refuse):
    assert integer(1)('3') == 3
    assert number(0, 1)('1e-3') == 0.001
    for kind, value, why in [
        (integer(1), '0', '0 is out of range: at least 1'),
        (integer(1, 4), '5', '1 to 4'),
        (integer(1), '1.5', 'not a whole number'),
        (integer(1), 'x' * 5000, 'not a whole number'),
        (number(0, 1), 'nan', 'not a number'),
        (number(0), 'inf', 'not a number'),
        (number(0), 'abc', 'not a number'),
        (number(0, 1), '2', '0 to 1'),
        (number(0, above=True), '0', 'more than 0'),
    ]:
        assert why in refuse(kind, value)


def test_paths_are_looked_at_before_any_work(refuse, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'file').write_text('x')
    (tmp_path / 'nowhere').symlink_to('gone')
    os.mkfifo('fifo')
    listening = socket.socket(socket.AF_UNIX)
    listening.bind('socket')
    assert arguments.input_file('file') == 'file'
    assert arguments.weights('ttl_mm://any') == 'ttl_mm://any'
    assert arguments.input_path('.') == '.'
    assert arguments.output_file('new/deep/file') == 'new/deep/file'
    assert arguments.output_folder('new/deep') == 'new/deep'
    for kind, value, why in [
        (arguments.input_file, 'none', 'does not exist'),
        (arguments.input_file, '', 'empty'),
        (arguments.input_file, '.', 'is a folder'),
        (arguments.input_file, 'a' * 300, 'too long'),
        (arguments.input_file, 'a\0', 'null'),
        (arguments.input_file, 'nowhere', 'does not exist'),
        (arguments.input_file, 'fifo', 'no regular file'),
        (arguments.input_path, 'socket', 'no regular file'),
        (arguments.input_file, '/dev/zero', 'no regular file'),
        (arguments.input_folder, 'file', 'not a folder'),
        (arguments.output_file, '.', 'is a folder'),
        (arguments.output_file, '', 'empty'),
        (arguments.output_file, 'nowhere', 'no regular file'),
        (arguments.output_file, '/dev/null', 'no regular file'),
        (arguments.output_file, 'file/x', 'file is not a folder'),
        (arguments.output_folder, 'file', 'not a folder'),
        (arguments.output_folder, 'file/x', 'file is not a folder'),
        (arguments.output_folder, '/proc/x', 'is not yours' if os.getuid() else ''),
        (arguments.device, 'gpu', 'use cpu, cuda or cuda:1'),
    ]:
        if why:
            assert why in refuse(kind, value)
    listening.close()


def test_an_option_that_is_not_known(capsys):
    parser = Parser(prog='ttl')
    child = parser.add_subparsers(dest='command').add_parser('eval')
    child.add_argument('--neighbors')
    with pytest.raises(SystemExit, match=r'^2$'):
        parser.parse_args(['eval', '--neigbors=3'])
    near = "ttl eval: --neigbors=3 is not understood here. Did you mean '--neighbors'?"
    assert capsys.readouterr().err == f'{near} See `ttl eval --help`.\n'


@pytest.mark.parametrize(
    ('text', 'value'),
    [
        ('0.1', 0.1),
        ('-3', -3),
        ('None', None),
        ('true', True),
        ('False', False),
        ("['a b', 1]", ['a b', 1]),
        ('1, 2', (1, 2)),
        ("'2024'", '2024'),
        ('/d/my photos', '/d/my photos'),
        ('/d/a, b', '/d/a, b'),
        (' x ', ' x '),
        ('''it's "so"''', '''it's "so"'''),
        ('a=b', 'a=b'),
        ('', ''),
        ('(' * 500, ValueError),
        ('[a, b]', ValueError),
        ('{x}', ValueError),
    ],
)
def test_a_value_is_a_literal_or_keeps_every_character(text, value):
    if value is ValueError:
        with pytest.raises(ValueError, match='put its texts in quotes'):
            parse_value(text)
    else:
        found = parse_value(text)
        assert (type(found), found) == (type(value), value)


def test_cfg_options_of_a_command_line(capsys):
    parser = Parser(prog='x')
    add_cfg_options(parser, 'a=1')
    arguments = ['--cfg-options', 'a.b=/my photos, 2', '+c=1', '--cfg-options', 'd=1', 'd=']
    assert parser.parse_args(arguments).cfg_options == {'a.b': '/my photos, 2', '+c': 1, 'd': ''}
    assert parser.parse_args([]).cfg_options is None
    for pair, why in {'a': 'KEY=VALUE', '=1': 'KEY=VALUE', 'a=[b]': 'in quotes'}.items():
        with pytest.raises(SystemExit, match=r'^2$'):
            parser.parse_args(['--cfg-options', 'b=1', pair])
        assert why in capsys.readouterr().err
