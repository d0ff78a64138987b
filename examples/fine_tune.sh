#!/usr/bin/env bash
# Trains on one corpus, then goes on from its weights on another one.
#
#     bash examples/fine_tune.sh large-corpus my-corpus
#     bash examples/fine_tune.sh                         # two corpora are spoken by espeak-ng first
#
# The second run begins with what the first one has learnt about speech, and has a learning rate
# and a length of its own. Symbols and languages that only the second corpus has are added.
#
# BASE_STEPS  steps on the first corpus (default: 300)
# MAX_STEPS   steps on the second one (default: 100)
# RATE        highest learning rate on the second one (default: 5e-4, a quarter of the usual)
# CONFIG      built-in configuration or YAML file of both runs (default: none)
# TEXT        what to say afterwards
# VOICE       a recording of the voice to say it in (default: the first of the second corpus)
# OUT         where everything goes (default: runs/fine-tuned)

set -euo pipefail

out=${OUT:-runs/fine-tuned}
text=${TEXT:-The little boat sailed home before the storm arrived.}
config=${CONFIG:-}
now=$(date +%Y%m%d-%H%M%S)
base_run=$out/base-$now
run=$out/run-$now

# shellcheck source=examples/command.sh
source "$(dirname "${BASH_SOURCE[0]}")/command.sh"

if [[ $# == 0 ]]; then
    base=$out/one-voice
    mine=$out/two-voices
    [[ -d $base ]] || myxtts demo-data "$base" --utterances 576 --speakers 1
    [[ -d $mine ]] || myxtts demo-data "$mine" --utterances 1152 --speakers 2
elif [[ $# == 2 ]]; then
    base=$1
    mine=$2
else
    echo "$(basename "$0"): expected two folders, to begin with and to go on with; found $#" >&2
    exit 2
fi

myxtts train "$base" ${config:+--config "$config"} \
    --max-steps "${BASE_STEPS:-300}" --run-dir "$base_run"
myxtts train "$mine" ${config:+--config "$config"} \
    --max-steps "${MAX_STEPS:-100}" --set training.learning_rate="${RATE:-5e-4}" \
    --init-from "$base_run" --run-dir "$run"

voice=${VOICE:-$(first_recording "$mine")}
myxtts synthesize "$run" --text "$text" --speaker-wav "$voice" --out "$out/speech.wav"
