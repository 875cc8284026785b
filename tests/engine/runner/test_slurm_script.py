"""What tools/slurm_train.sh does after its ranks have ended, in every way that they can.

The ranks are a shell script here; test_launchers.py has real ones.
"""

import os
import subprocess

import pytest

from tests.helpers.paths import ROOT
from tests.helpers.slurm import requeued, stand_ins

# ends with the code of its rank, and tells it as ttl_mm.engine.state.exit_codes.tell_launcher does;
# the first rank is the first to end, unless it is silent: then it is killed, or ends as others say
RANK = """#!/usr/bin/env bash
printf '%s\\n' "$*" >> "$TASKS.arguments"
codes=($CODES)
code=${codes[$SLURM_PROCID]}
sleep "0.$((3 * SLURM_PROCID))"
if [ "$code" -ne 0 ] && [ "$TELL" = yes ] && [ ! -e "$TTL_EXIT_FILE" ]; then
    echo "$code $SLURM_PROCID" > "$TTL_EXIT_FILE"
fi
exit "$code"
"""


@pytest.fixture
def job(tmp_path):
    """A function that runs the script with ranks that end with ``codes``; its code and words."""
    (tmp_path / 'rank').write_text(RANK)
    (tmp_path / 'rank').chmod(0o755)

    def run(codes, *arguments, tell=True, **environment):
        given = dict(PYTHON=str(tmp_path / 'rank'), CODES=codes, TELL='yes' if tell else 'no')
        env = {**os.environ, **stand_ins(tmp_path, **{**given, **environment})}
        command = [ROOT / 'tools' / 'slurm_train.sh', 'config.py', *arguments]
        ended = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
        assert not list(tmp_path.glob('*.exit'))
        return ended.returncode, ended.stderr

    return run


@pytest.mark.parametrize(
    ('codes', 'environment', 'code', 'is_requeued'),
    [
        ('0 0', {}, 0, False),
        ('2 76', {'CAN_KILL': 'no'}, 2, False),  # srun itself would return 76
        ('2 0', {}, 2, False),
        ('3 3', {}, 3, False),
        ('75 75', {}, 75, True),  # the time limit; or preempted, in its grace time
        ('75 75', {'JOB_STATE': 'COMPLETING'}, 75, False),  # scancel
        ('75 75', {'JOB_STATE': 'CANCELLED'}, 75, False),
        ('75 75', {'JOB_STATE': 'COMPLETING', 'PREEMPT_TIME': '2026-11-18T04:00:00'}, 75, True),
        ('76 76', {}, 76, True),
        ('76 76', {'SLURM_RESTART_COUNT': '20'}, 76, False),
    ],
)
def test_the_first_code_decides(job, tmp_path, codes, environment, code, is_requeued):
    assert job(codes, **environment)[0] == code
    assert requeued(tmp_path) == (['77'] if is_requeued else [])


def test_a_signal_before_the_run_could_act_on_it_goes_back_into_the_queue(job, tmp_path):
    assert job('143 143', tell=False)[0] == 143
    assert job('134 134', tell=False)[0] in (134, 137)  # any other end, as srun kills the rest
    assert requeued(tmp_path) == ['77']


def test_an_element_of_an_array_has_its_own_id_and_options(job, tmp_path):
    array = dict(SLURM_ARRAY_JOB_ID='77', SLURM_ARRAY_TASK_ID='4', SLURM_CPUS_PER_TASK='12')
    code, words = job('75 75', '--work-dir', 'work_dirs/seed%a', **array)
    assert (code, requeued(tmp_path)) == (75, ['77_4'])
    assert 'rank 0 was the first to end, with code 75' in words
    arguments = (tmp_path / 'tasks.arguments').read_text()
    assert '--work-dir work_dirs/seed4' in arguments
    assert '--resume auto' in arguments
    assert (tmp_path / 'tasks.cpus').read_text() == '12\n'
