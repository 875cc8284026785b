#!/usr/bin/env bash
# Train under Slurm, and go on by itself after a preemption or the time limit:
#   sbatch --nodes 1 --gpus-per-node 8 --ntasks-per-node 8 tools/slurm_train.sh CONFIG [options]
# Options are those of tools/train.py; in a job array, %a in them is the number of the element.
# Two minutes before the limit (and when preempted) every rank gets a signal, saves, and ends with
# 75; the job then puts itself back into the queue and resumes. An error of any rank ends the job
# with the code of that error, and so does scancel. See docs/cluster.md.
#SBATCH --job-name=ttl_mm
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@120
#SBATCH --cpus-per-task=8
set -u
if [ $# -lt 1 ]; then
    echo "usage: sbatch [options of Slurm] $0 CONFIG [options of tools/train.py]" >&2
    exit 2
fi
set -- "${@//%a/${SLURM_ARRAY_TASK_ID:-0}}"
config=$1
shift
root=${SLURM_SUBMIT_DIR:-$(dirname "$(dirname "$(realpath "$0")")")}
# the id of an array's first element is that of the whole array: scontrol would requeue all of it
job=$SLURM_JOB_ID
if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then
    job=${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}
fi
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR
export MASTER_PORT=${MASTER_PORT:-$((20000 + SLURM_JOB_ID % 20000))}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-8} # since Slurm 22.05 srun does not inherit it
# beside the job's log, which lies on a file system that all nodes share
export TTL_EXIT_FILE=${TTL_EXIT_FILE:-$PWD/slurm-$job.exit}
rm -f "$TTL_EXIT_FILE" # of the job before it was requeued

# scancel and preemption both send SIGTERM. Assumed of Slurm: a canceled job is CANCELLED or
# COMPLETING at once; a preempted one is RUNNING until its grace time ends, and has a PreemptTime.
was_canceled() {
    local state
    state=$(scontrol show job "$job" 2>/dev/null)
    [[ $state == *JobState=CANCELLED* ]] ||
        [[ $state == *JobState=COMPLETING* && $state != *PreemptTime=[0-9]* ]]
}

trap '' USR1 TERM # Slurm may signal this shell too: the ranks act on it, the shell waits for them
srun --kill-on-bad-exit=1 "${PYTHON:-python}" "$root/tools/train.py" "$config" \
    --launcher slurm --resume auto "$@"
code=$? # the highest of all ranks; the first one, which took the others along, is in the file
if [ $code -ne 0 ] && [ -s "$TTL_EXIT_FILE" ]; then
    read -r code rank < "$TTL_EXIT_FILE"
    echo "$0: rank $rank was the first to end, with code $code" >&2
fi
rm -f "$TTL_EXIT_FILE"
case $code in
75 | 138 | 143) # saved on a signal; or SIGUSR1 or SIGTERM came before the run could act on it
    if was_canceled; then
        echo "$0: job $job was canceled, so it is not put back into the queue" >&2
    else
        scontrol requeue "$job"
    fi
    ;;
76) # a rank fell silent: perhaps another node does better, but not for ever
    if [ "${SLURM_RESTART_COUNT:-0}" -lt "${TTL_MAX_RESTARTS:-20}" ]; then
        scontrol requeue "$job"
    else
        echo "$0: stalled after $SLURM_RESTART_COUNT restarts, so it is not put back again" >&2
    fi
    ;;
esac
exit "$code"
