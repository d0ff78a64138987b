#!/usr/bin/env bash
# Trains on a folder of recordings and synthesizes a sentence in one of the voices.
#
#     bash examples/your_own_data.sh my-corpus   # metadata.csv with id|text, next to wavs/
#     bash examples/your_own_data.sh             # generates a small corpus with espeak-ng first
#
# MAX_STEPS   length of the training (default: 300; the demo: 1200)
# CONFIG      built-in configuration or YAML file (default: none; for hours of speech: config)
# TEXT        text to synthesize
# VOICE       reference recording (default: the first of the corpus)
# UTTERANCES  clips of the generated corpus (default: 400)
# OUT         output folder (default: runs/your-own-data)

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

# Exit code 1 means that some clips are unusable; training leaves them out.
myxtts validate "$corpus" ${config:+--config "$config"} || [[ $? == 1 ]]
myxtts stats "$corpus" ${config:+--config "$config"}
myxtts prepare "$corpus" ${config:+--config "$config"}
myxtts train "$corpus" ${config:+--config "$config"} \
    --max-steps "${MAX_STEPS:-300}" --run-dir "$run"

voice=${VOICE:-$(first_recording "$corpus")}
myxtts synthesize "$run" --text "$text" --speaker-wav "$voice" --out "$out/speech.wav"
myxtts evaluate "$run" --count 4

printf '\nSaid:      %s\nVoice of:  %s\nListen to: %s\n' "$text" "$voice" "$out/speech.wav"
