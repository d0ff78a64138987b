#!/usr/bin/env bash
# From a folder of recordings to a sentence in one of their voices.
#
#     bash examples/your_own_data.sh my-corpus   # metadata.csv (id|text a line) beside wavs/
#     bash examples/your_own_data.sh             # a small corpus is spoken by espeak-ng first
#
# MAX_STEPS   length of the training (default: 300; the demo has 1200)
# CONFIG      built-in configuration or YAML file (default: none; for hours of speech config)
# TEXT        what to say
# VOICE       a recording of the voice to say it in (default: the first of the corpus)
# UTTERANCES  clips of the corpus that is made where none is given (default: 400)
# OUT         where everything goes (default: runs/your-own-data)

set -euo pipefail

out=${OUT:-runs/your-own-data}
text=${TEXT:-The little boat sailed home before the storm arrived.}
config=${CONFIG:-}
run=$out/run-$(date +%Y%m%d-%H%M%S)

# shellcheck source=examples/command.sh
source "$(dirname "${BASH_SOURCE[0]}")/command.sh"

if [[ $# == 0 ]]; then
    corpus=$out/corpus
    [[ -d $corpus ]] || myxtts demo-data "$corpus" --utterances "${UTTERANCES:-400}" --speakers 2
else
    corpus=$1
fi

# Code 1 means that some clips cannot be used: training leaves them out and goes on.
myxtts validate "$corpus" ${config:+--config "$config"} || [[ $? == 1 ]]
myxtts stats "$corpus" ${config:+--config "$config"}
myxtts prepare "$corpus" ${config:+--config "$config"}
myxtts train "$corpus" ${config:+--config "$config"} \
    --max-steps "${MAX_STEPS:-300}" --run-dir "$run"

voice=${VOICE:-$(first_recording "$corpus")}
myxtts synthesize "$run" --text "$text" --speaker-wav "$voice" --out "$out/speech.wav"
myxtts evaluate "$run" --count 4

printf '\nSaid:      %s\nVoice of:  %s\nListen to: %s\n' "$text" "$voice" "$out/speech.wav"
