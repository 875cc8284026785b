#!/usr/bin/env bash
# Test a fine-tuned detector: figures, a table per class, and pictures of its predictions.
#   projects/detection/test.sh CONFIG WEIGHTS [KEY=VALUE ...]
# Pictures (truth left, prediction right) go to work_dirs/CONFIG/rendered.
set -euo pipefail
if [ $# -lt 2 ]; then
    sed -n '2,4s/^# //p' "$0" >&2
    exit 2
fi
config=$1 weights=$2
shift 2
root=$(dirname "$(realpath "$0")")/../..
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python}" "$root/tools/test.py" "$config" "$weights" ${1:+--cfg-options "$@"}
