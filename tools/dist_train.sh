#!/usr/bin/env bash
# Train on all GPUs of one or more machines (or on processes without a GPU):
#   tools/dist_train.sh CONFIG GPUS [options of tools/train.py]
# Several machines: NNODES, NODE_RANK, MASTER_ADDR and PORT in the environment of each.
# Machines that come and go: NNODES=1:4, MASTER_ADDR and PORT; see docs/cluster.md.
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
elastic=
if [[ "$NNODES" =~ ^[0-9]+:([0-9]+)$ ]]; then
    elastic=yes
    # as many ranks as all machines have GPUs, so that an optimizer step has the same images on fewer
    export TTL_RANKS=${TTL_RANKS:-$((BASH_REMATCH[1] * gpus))} TTL_ELASTIC=yes
    settings=last_call_timeout=${TTL_LAST_CALL:-5} # seconds to wait for more machines
    if [ -n "${TTL_ADDR:-}" ]; then # torchrun finds out by the host name who keeps the rendezvous
        settings+=,is_host=$([ "$TTL_ADDR" = "${MASTER_ADDR:-}" ] && echo true || echo false)
    fi
    rendezvous=(--nnodes "$NNODES" --rdzv_backend c10d --rdzv_id "${TTL_JOB:-ttl_mm}"
        --rdzv_endpoint "${MASTER_ADDR:-127.0.0.1}:${PORT:-29500}"
        --rdzv_conf "$settings" --max_restarts "${TTL_MAX_RESTARTS:-20}" ${TTL_ADDR:+--local_addr "$TTL_ADDR"})
    # torch 2.13 shares a store between rounds and tells machines of later rounds no address of it
    export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
    set -- "$@" --resume # from the newest checkpoint, whenever a machine came or went
elif [ "$NNODES" -eq 1 ] && [ -z "${PORT:-}" ]; then
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
        # an elastic torchrun would start the ranks that have saved once more
        [ -n "$elastic" ] && [ -s "$TTL_EXIT_FILE" ] && kill -INT $job 2>/dev/null
    done
done
if [ $code -ne 0 ] && [ -s "$TTL_EXIT_FILE" ]; then
    read -r code _ < "$TTL_EXIT_FILE"
fi
rm -rf "$folder"
exit "$code"
