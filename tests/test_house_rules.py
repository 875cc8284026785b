from tools.house_rules import borrowed_tests, junk_files, large_files, repeated_assignments


def test_junk_and_large_files_are_named(tmp_path):
    assert len(junk_files(['a.py', '.DS_Store', 'x/b.yaml_bk.yaml', 'c.orig'])) == 3
    (tmp_path / 'weights.pth').write_bytes(bytes(3 * 2**20))
    (tmp_path / 'small.txt').write_text('x')
    assert len(large_files(tmp_path, ['weights.pth', 'small.txt'])) == 1


def test_second_assignment_is_named_with_both_lines_unless_it_builds_on_the_first():
    (problem,) = repeated_assignments('c.py', 'train_cfg = 1\nlr = 2\ntrain_cfg = 3\n')
    assert 'c.py:3' in problem
    assert 'line 1' in problem
    assert repeated_assignments('c.py', 'steps = [1]\nsteps = [*steps, 2]\n') == []


def test_an_import_from_another_test_module_is_named_and_one_of_a_helper_is_not():
    source = 'from tests.helpers.paths import ROOT\nfrom tests.cli.test_cli import x\n'
    (problem,) = borrowed_tests('tests/test_a.py', source)
    assert 'tests/test_a.py:2' in problem
    assert borrowed_tests('tests/a.py', 'from tests.cli.conftest import x\n')
