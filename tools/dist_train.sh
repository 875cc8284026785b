#!/usr/bin/env bash
# Train on all GPUs of one or more machines (or on processes without a GPU):
#   tools/dist_train.sh CONFIG GPUS [options of tools/train.py]
# Several machines: NNODES, NODE_RANK, MASTER_ADDR and PORT in the environment of each.
# Exit codes are those of tools/train.py, see docs/training.md. SIGTERM and SIGUSR1 save and end.
set -u
if [ $# -lt 2 ]; then
    echo "usage: $0 CONFIG GPUS [options of tools/train.py]" >&2
    exit 2
fi
config=$1 gpus=$2
shift 2
here=$(dirname "$(realpath "$0")")
NNODES=${NNODES:-1}
rendezvous=(--nnodes "$NNODES" --node_rank "${NODE_RANK:-0}"
    --master_addr "${MASTER_ADDR:-127.0.0.1}" --master_port "${PORT:-29500}")
if [ "$NNODES" -eq 1 ] && [ -z "${PORT:-}" ]; then
    rendezvous=(--standalone)  # takes a free port: two runs on one machine do not collide
fi
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
TTL_EXIT_FILE=$(mktemp)
export TTL_EXIT_FILE

"${PYTHON:-python}" -m torch.distributed.run "${rendezvous[@]}" --nproc_per_node "$gpus" \
    "$here/train.py" "$config" --launcher pytorch "$@" &
job=$!
# to the ranks: torchrun itself would grant them only 30 s to save
trap 'kill -TERM $(pgrep -P $job || echo $job)' TERM USR1 HUP
trap 'kill -INT $job' INT
wait $job
code=$?
while kill -0 $job 2>/dev/null; do  # a signal ends `wait`, not the job
    wait $job
    code=$?
done
if [ $code -ne 0 ] && [ -s "$TTL_EXIT_FILE" ]; then
    code=$(cat "$TTL_EXIT_FILE")
fi
rm -f "$TTL_EXIT_FILE"
exit $code
