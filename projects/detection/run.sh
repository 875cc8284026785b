#!/usr/bin/env bash
# Fine-tune a detector from a pre-training checkpoint:
#   projects/detection/run.sh CONFIG CHECKPOINT GPUS [KEY=VALUE ...]
# CHECKPOINT is any file that `ttl export` reads, or `none` for the baselines, which know theirs.
# Data is looked for in data/coco and data/VOCdevkit, or where COCO_ROOT and VOC_ROOT say.
# Each KEY=VALUE changes the config. RESUME=1 continues an interrupted run.
set -euo pipefail
if [ $# -lt 3 ]; then
    sed -n '2,6s/^# //p' "$0" >&2
    exit 2
fi
config=$1 checkpoint=$2 gpus=$3
shift 3
if ! [[ $gpus =~ ^(1|2|4|8|16)$ ]]; then
    echo "run.sh: $gpus GPUs cannot share the batch of 16 images; take 1, 2, 4, 8 or 16" >&2
    exit 2
fi
root=$(dirname "$(realpath "$0")")/../..
options=("train_dataloader.batch_size=$((16 / gpus))")
check=()
if [ "$checkpoint" != none ]; then
    options+=("model.backbone.init_cfg.checkpoint=$checkpoint"
        "model.roi_head.shared_head.init_cfg.checkpoint=$checkpoint")
    check=(--checkpoint "$checkpoint")
fi
options+=("$@")
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
python=${PYTHON:-python} safe=()
"$python" -P -c '' 2>/dev/null && safe=(-P) # since Python 3.11: no module of the current folder
"$python" "${safe[@]}" -m ttl_mm detect check "$config" "${check[@]}" --cfg-options "${options[@]}"
exec "$root/tools/dist_train.sh" "$config" "$gpus" ${RESUME:+--resume} \
    --cfg-options "${options[@]}"
