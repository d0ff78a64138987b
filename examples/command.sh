# shellcheck shell=bash
# Sourced by the shell examples; `myxtts` prints each command before it runs it.

find_myxtts() {
    local installed
    installed=$(dirname "${BASH_SOURCE[0]}")/../.venv/bin/myxtts
    if [[ ! -x $installed ]] && ! installed=$(type -P myxtts); then
        echo "$(basename "$0"): found no myxtts; run 'make env' in the project's folder first" >&2
        exit 2
    fi
    MYXTTS=$installed
}

myxtts() {
    local word tick="'"
    printf '\n$ myxtts'
    for word in "$@"; do
        # Quote only words that the shell would split or expand.
        [[ $word =~ ^[A-Za-z0-9_./:=,+-]+$ ]] || word=$tick${word//$tick/$tick\\$tick$tick}$tick
        printf ' %s' "$word"
    done
    printf '\n'
    "$MYXTTS" "$@"
}

first_recording() {
    find "$1" -name '*.wav' -o -name '*.flac' -o -name '*.ogg' -o -name '*.mp3' | sort | sed -n 1p
}

find_myxtts
