"""Stand-ins for the commands of Slurm that tools/slurm_train.sh calls."""

import os
from pathlib import Path

from tests.helpers.paths import ROOT
from tests.helpers.toy_run import free_port

# As the real one: all tasks get the environment and a rank; if asked to, it kills the others when
# one ends badly; it returns the highest code. TASKS gets the ids of the processes.
SRUN = """#!/usr/bin/env bash
kill=
while [[ $1 == --* ]]; do [[ $1 == --kill-on-bad-exit=1 ]] && kill=${CAN_KILL:-yes}; shift; done
echo "$SRUN_CPUS_PER_TASK" > "$TASKS.cpus"
: > "$TASKS"
for rank in $(seq 0 $((SLURM_NTASKS - 1))); do
    SLURM_PROCID=$rank SLURM_LOCALID=$rank "$@" &
    echo $! >> "$TASKS"
done
highest=0
for _ in $(seq "$SLURM_NTASKS"); do
    wait -n
    code=$?
    [ $code -gt $highest ] && highest=$code
    if [ $code -ne 0 ] && [ "$kill" = yes ]; then
        kill -KILL $(cat "$TASKS") 2>/dev/null
        kill=
    fi
done
exit $highest
"""
SCONTROL = """#!/usr/bin/env bash
case "$1 $2" in
"show hostnames") echo 127.0.0.1 ;;
"show job") echo "JobId=$3 JobState=${JOB_STATE:-RUNNING} PreemptTime=${PREEMPT_TIME:-None}" ;;
requeue*) echo "$2" >> "$REQUEUED" ;;
esac
"""


def stand_ins(folder: Path, tasks: int = 2, **more: str) -> dict[str, str]:
    """Write srun and scontrol into ``folder``; the environment of a job that finds them there."""
    for name, script in (('srun', SRUN), ('scontrol', SCONTROL)):
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    return {
        'PATH': f'{folder}:{os.environ["PATH"]}', 'MASTER_PORT': str(free_port()),
        'TASKS': str(folder / 'tasks'), 'REQUEUED': str(folder / 'requeued'),
        'SLURM_NTASKS': str(tasks), 'SLURM_JOB_ID': '77', 'SLURM_JOB_NODELIST': 'node',
        'SLURM_NODELIST': 'node', 'SLURM_SUBMIT_DIR': str(ROOT), **more,
    }  # fmt: skip


def requeued(folder: Path) -> list[str]:
    """The jobs that were put back into the queue."""
    file = folder / 'requeued'
    return file.read_text().split() if file.exists() else []
