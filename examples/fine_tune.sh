#!/usr/bin/env bash
# Trains on one corpus, then starts a second run from these weights on another corpus.
#
#     bash examples/fine_tune.sh large-corpus my-corpus
#     bash examples/fine_tune.sh                         # generates both corpora with espeak-ng first
#
# The second run has its own learning rate and length. Symbols and languages that only the second
# corpus has are added.
#
# BASE_STEPS  steps on the first corpus (default: 300)
# MAX_STEPS   steps on the second corpus (default: 100)
# RATE        peak learning rate on the second corpus (default: 5e-4, a quarter of the usual)
# CONFIG      built-in configuration or YAML file of both runs (default: none)
# TEXT        text to synthesize
# VOICE       reference recording (default: the first of the second corpus)
# OUT         output folder (default: runs/fine-tuned)

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
    echo "$(basename "$0"): expected the folders of two corpora; found $#" >&2
    exit 2
fi

myxtts train "$base" ${config:+--config "$config"} \
    --max-steps "${BASE_STEPS:-300}" --run-dir "$base_run"
myxtts train "$mine" ${config:+--config "$config"} \
    --max-steps "${MAX_STEPS:-100}" --set training.learning_rate="${RATE:-5e-4}" \
    --init-from "$base_run" --run-dir "$run"

voice=${VOICE:-$(first_recording "$mine")}
myxtts synthesize "$run" --text "$text" --speaker-wav "$voice" --out "$out/speech.wav"
