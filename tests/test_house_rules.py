from tools.house_rules import junk_files, large_files, repeated_assignments


def test_junk_is_named():
    assert len(junk_files(['a.py', '.DS_Store', 'x/b.yaml_bk.yaml', 'c.orig'])) == 3


def test_second_assignment_is_named_with_both_lines():
    (problem,) = repeated_assignments('c.py', 'train_cfg = 1\nlr = 2\ntrain_cfg = 3\n')
    assert 'c.py:3' in problem
    assert 'line 1' in problem


def test_building_on_the_first_value_is_fine():
    assert repeated_assignments('c.py', 'steps = [1]\nsteps = [*steps, 2]\n') == []


def test_large_file(tmp_path):
    (tmp_path / 'weights.pth').write_bytes(bytes(3 * 2**20))
    (tmp_path / 'small.txt').write_text('x')
    assert len(large_files(tmp_path, ['weights.pth', 'small.txt'])) == 1
