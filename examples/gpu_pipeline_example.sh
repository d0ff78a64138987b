#!/usr/bin/env bash
# Seven ways to run the GPU pipeline, from one GPU to four.
#
#     bash examples/gpu_pipeline_example.sh                          # lists them
#     bash examples/gpu_pipeline_example.sh 4                        # runs one on GPUs
#     bash examples/gpu_pipeline_example.sh 4 --virtual-devices 2    # CPUs stand in for GPUs
#     bash examples/gpu_pipeline_example.sh all --virtual-devices 4  # runs all of them
#
# Arguments after the number are passed to `myxtts train`, such as --train-data my-corpus or
# --config my-settings.yaml. Without --train-data the demo corpus is generated in demo/corpus.
#
# MAX_STEPS  length of each run (default: 20)
# RUNS       folder of the runs (default: runs/gpu-pipeline)

set -euo pipefail

max_steps=${MAX_STEPS:-20}
runs=${RUNS:-runs/gpu-pipeline}
all=(1 2 3 4 5 6 7)

# Sets `gpus`, `title` and `flags` of scenario $1.
choose() {
    flags=(--max-steps "$max_steps")
    case $1 in
        1)
            gpus="1 GPU"
            title="single-GPU buffered mode, the default"
            ;;
        2)
            gpus="1 GPU"
            title="a larger buffer, for loading that is fast enough but uneven"
            flags+=(--buffer-size 200)
            ;;
        3)
            gpus="1 GPU"
            title="one static shape for every batch, buffered"
            flags+=(--enable-static-shapes --buffer-size 50)
            ;;
        4)
            gpus="2 GPUs"
            title="features on a data GPU, the model on another"
            flags+=(--data-gpu 0 --model-gpu 1)
            ;;
        5)
            gpus="2 GPUs"
            title="the same with memory limits and a later start of the model"
            flags+=(--data-gpu 0 --model-gpu 1 --model-start-delay 5)
            flags+=(--enable-memory-isolation --data-gpu-memory 4096 --model-gpu-memory 8192)
            ;;
        6)
            gpus="2 GPUs"
            title="a larger model with augmentation, four batches of 4 per step"
            flags+=(--data-gpu 0 --model-gpu 1 --batch-size 4 --gradient-accumulation-steps 4)
            flags+=(--model-size small --optimization-level enhanced)
            ;;
        7)
            gpus="4 GPUs"
            title="one data GPU, the model mirrored on three, 16 clips each"
            flags+=(--data-gpu 0 --model-gpu "1,2,3" --batch-size 48)
            ;;
        *)
            return 1
            ;;
    esac
}

list_scenarios() {
    echo "Give the number of a scenario, or all:"
    for number in "${all[@]}"; do
        choose "$number"
        printf '  %s  %-6s  %s\n' "$number" "$gpus" "$title"
    done
    echo "Without GPUs, add --virtual-devices 4 to simulate them on the CPU."
}

# Prints a table of the reports of the runs $@; runs without a report (--dry-run) are skipped.
summarize() {
    "$python" - "$@" <<'PYTHON'
import json, pathlib, sys

line = "{:<10}{:<22}{:<8}{:<22}{:>6}{:>9}{:>11}"
reports = [pathlib.Path(run, "report.json") for run in sys.argv[1:]]
rows = [(file.parent.name[0], json.loads(file.read_text())) for file in reports if file.exists()]
if rows:
    print()
    print(line.format("scenario", "mode", "data", "model", "buffer", "useful", "stepping"))
for number, report in rows:
    devices = report["data_device"], ", ".join(report["model_devices"])
    shares = [f"{report[name]:.1%}" for name in ("useful_utilisation", "steady_utilisation")]
    print(line.format(number, report["mode"], *devices, report["buffer_size"], *shares))
PYTHON
}

if [[ $# == 0 ]]; then
    list_scenarios
    exit
fi
chosen=("$1")
if [[ $1 == all ]]; then
    chosen=("${all[@]}")
elif ! choose "$1"; then
    echo "$(basename "$0"): found '$1', expected a number from 1 to ${#all[@]}, or all" >&2
    exit 2
fi
shift

# shellcheck source=examples/command.sh
source "$(dirname "${BASH_SOURCE[0]}")/command.sh"
python=$(dirname "$MYXTTS")/python
[[ -x $python ]] || python=python3

finished=()
for number in "${chosen[@]}"; do
    choose "$number"
    run=$runs/$number-$(date +%Y%m%d-%H%M%S)
    printf '\nScenario %s: %s\n' "$number" "$title"
    myxtts train "${flags[@]}" --run-dir "$run" "$@"
    finished+=("$run")
done
summarize "${finished[@]}"
