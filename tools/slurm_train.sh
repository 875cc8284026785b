#!/usr/bin/env bash
# Train under Slurm, and go on by itself after a preemption or the time limit:
#   sbatch --nodes 1 --gpus-per-node 8 --ntasks-per-node 8 tools/slurm_train.sh CONFIG [options]
# Options are those of tools/train.py. Two minutes before the limit (and when preempted) every rank
# gets SIGUSR1, saves, and ends with 75; the job then puts itself back into the queue and resumes.
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
config=$1
shift
root=${SLURM_SUBMIT_DIR:-$(dirname "$(dirname "$(realpath "$0")")")}
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR
export MASTER_PORT=${MASTER_PORT:-$((20000 + SLURM_JOB_ID % 20000))}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

trap '' USR1 TERM # Slurm may signal this shell too: the ranks act on it, the shell waits for them
srun --kill-on-bad-exit=0 "${PYTHON:-python}" "$root/tools/train.py" "$config" \
    --launcher slurm --resume auto "$@"
code=$?
if [ $code -eq 75 ] || [ $code -eq 76 ]; then
    # saved on a signal, or a rank fell silent: both go on from the last checkpoint
    scontrol requeue "$SLURM_JOB_ID"
fi
exit $code
