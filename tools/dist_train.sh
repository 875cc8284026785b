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
python=${PYTHON:-python} safe=()
"$python" -P -c '' 2>/dev/null && safe=(-P) # since Python 3.11: no module of the current folder
folder=$(mktemp -d) # of this machine; give a path that all machines share to end all with one code
export TTL_EXIT_FILE=${TTL_EXIT_FILE:-$folder/code}
if [ -e "$TTL_EXIT_FILE" ]; then
    echo "$0: TTL_EXIT_FILE=$TTL_EXIT_FILE is there already: name a file that does not exist" >&2
    exit 2
fi
# A signal may reach the whole process group (systemd, kill). The ranks save on it; torchrun must
# outlive them, and would grant them only 30 s.
export PET_SIGNALS_TO_HANDLE=SIGINT # read by torchrun; older ones handle SIGTERM in any case
(
    trap '' TERM USR1 HUP # inherited by torchrun, and by the ranks until they set their own
    exec "$python" "${safe[@]}" -m torch.distributed.run "${rendezvous[@]}" --nproc_per_node "$gpus" \
        "$here/train.py" "$config" --launcher pytorch "$@"
) &
job=$!
asked=
trap 'asked=yes' TERM USR1 HUP
trap 'kill -INT $job' INT
while wait $job; code=$?; kill -0 $job 2>/dev/null; do # a signal ends `wait`, not the job
    while [ -n "$asked" ] && kill -0 $job 2>/dev/null; do
        # ranks that are still starting take no note of it: ask again until all have ended
        pkill -TERM -P $job
        sleep 2 &
        wait $!
    done
done
if [ $code -ne 0 ] && [ -s "$TTL_EXIT_FILE" ]; then
    read -r code _ < "$TTL_EXIT_FILE"
fi
rm -rf "$folder"
exit "$code"
