import argparse

import pytest

from ttl_mm import cli
from ttl_mm.cli import doctor
from ttl_mm.errors import UserError


def parsers(parser=None):
    """Every command and subcommand with its parser, and the help line that its parent shows."""
    for action in (parser or cli.build_parser())._actions:
        if isinstance(action, argparse._SubParsersAction):
            lines = {choice.dest: choice.help for choice in action._choices_actions}
            for name, child in action.choices.items():
                yield child, lines.get(name)
                yield from parsers(child)


def test_every_command_and_option_says_what_it_does(capsys):
    found = list(parsers())
    names = [parser.prog for parser, _ in found]
    assert {'ttl doctor', 'ttl zoo get', 'ttl detect check', 'ttl reid check'} <= set(names)
    for parser, line in found:
        assert line, f'{parser.prog} has no line of help'
        silent = [a.option_strings for a in parser._actions if a.option_strings and not a.help]
        assert not silent, f'{parser.prog}: {silent} have no help'
        with pytest.raises(SystemExit, match=r'^0$'):
            cli.main([*parser.prog.split()[1:], '--help'])
        assert f'usage: {parser.prog}' in capsys.readouterr().out


def test_an_old_option_names_the_new_one(capsys):
    for old, new in {
        'analyze --batch 64': '--batch is now --batch-size',
        'eval --k 20': '--k is now --neighbors',
        'eval --reid --reference-flip': '--reid is now `ttl reid eval CHECKPOINT --data DIR`',
        'plan --recipe FILE': '--recipe is now --config',
        'plan --labelled': '--labelled is now --labeled',
        'report --neighbours': '--neighbours is now --neighbors',
        'zoo publish --licence MIT': '--licence is now --license',
    }.items():
        assert cli.main(old.split()) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f': {new}. See `ttl {old.split()[0]}' in line


def test_a_renamed_command_names_the_new_one(capsys):
    assert cli.main(['check_detection', 'config.py']) == 2
    assert 'is now `ttl detect check`' in capsys.readouterr().err


def test_user_error_is_one_line_and_exit_code_2(monkeypatch, capsys):
    def fail(args):
        raise UserError('no images in x: give a folder that has some')

    monkeypatch.setattr(doctor, 'run', fail)
    assert cli.main(['doctor']) == 2
    assert capsys.readouterr().err == 'ttl doctor: no images in x: give a folder that has some\n'
