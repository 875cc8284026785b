import os

import pytest

from ttl_mm.errors import UserError
from ttl_mm.outputs import MARK, check_folder, claim_file, claim_job, claimed_folder, mark_folder


def test_a_file_is_replaced_only_on_request_and_never_the_source(tmp_path):
    path, link = tmp_path / 'a.pth', tmp_path / 'link.pth'
    assert claim_file(path) == path
    path.write_text('x')
    link.symlink_to(path)
    with pytest.raises(UserError, match=r'exists: .* --overwrite'):
        claim_file(path)
    assert claim_file(path, overwrite=True) == path
    for same in (path, link):
        with pytest.raises(UserError, match='is the file that is read'):
            claim_file(same, overwrite=True, source=path)
    os.mkfifo(tmp_path / 'fifo')
    for other in (tmp_path / 'fifo', '/dev/null', tmp_path):
        with pytest.raises(UserError, match='no regular file'):
            claim_file(other, overwrite=True)


def test_a_folder_is_filled_again_by_the_command_that_filled_it(tmp_path):
    names = ('index.html', '*.png')
    check_folder(tmp_path / 'new', 'ttl report', names)
    assert not (tmp_path / 'new').exists()
    (tmp_path / 'other.txt').write_text('in nobody’s way')
    check_folder(tmp_path, 'ttl report', names)
    (tmp_path / 'loss.png').write_text('of somebody')
    with pytest.raises(UserError, match=r'holds loss.png, which `ttl report` did not write'):
        check_folder(tmp_path, 'ttl report', names)
    check_folder(tmp_path, 'ttl report', names, overwrite=True)
    mark_folder(tmp_path, 'ttl report')
    mark_folder(tmp_path, 'ttl report')
    check_folder(tmp_path, 'ttl report', names)
    with pytest.raises(UserError, match='`ttl analyze` did not write'):
        check_folder(tmp_path, 'ttl analyze', names)
    mark_folder(tmp_path, 'ttl analyze')
    for command in ('ttl report', 'ttl analyze'):
        check_folder(tmp_path, command, names)


def test_a_command_that_fails_before_it_writes_leaves_no_folder(tmp_path):
    def fail(folder, *names):
        with pytest.raises(UserError), claimed_folder(folder, 'ttl map') as out:  # noqa: PT012
            for name in names:
                (out / name).write_text('x')
            raise UserError('no weights')

    fail(tmp_path / 'a' / 'b')
    assert list(tmp_path.iterdir()) == []
    (tmp_path / 'mine').mkdir()
    fail(tmp_path / 'mine')
    assert [path.name for path in tmp_path.rglob('*')] == ['mine']
    fail(tmp_path / 'a' / 'b', 'features.partial')
    assert {path.name for path in (tmp_path / 'a' / 'b').iterdir()} == {'features.partial', MARK}
    with claimed_folder(tmp_path / 'a' / 'b', 'ttl map') as out:
        assert out == tmp_path / 'a' / 'b'
    with pytest.raises(UserError, match='which `ttl search` did not write'):
        claimed_folder(out, 'ttl search').__enter__()


def test_a_job_is_continued_by_the_same_request_alone(tmp_path):
    folder, asked = tmp_path / 'job', {'seeds': 2, 'rate': None, 'sizes': (1, 2)}
    for _ in range(2):
        assert claim_job(folder, 'ttl finetune', asked) == folder
    with pytest.raises(
        UserError, match='holds a job with rate left open, and this line asks for 1'
    ):
        claim_job(folder, 'ttl finetune', {**asked, 'rate': 1})
    (folder / 'request.json').write_text('[]')
    with pytest.raises(UserError, match=r'request.json cannot be read \(it is no request\)'):
        claim_job(folder, 'ttl finetune', asked)
    (tmp_path / 'other').mkdir()
    (tmp_path / 'other/photo.jpg').write_text('')
    with pytest.raises(UserError, match=r'photo.jpg, which `ttl finetune` did not write'):
        claim_job(tmp_path / 'other', 'ttl finetune', asked)
