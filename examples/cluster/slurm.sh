#!/bin/bash
# sbatch examples/cluster/slurm.sh my-corpus /shared/runs/mine
#
# Trains on two machines with four GPUs each. Submitting it again resumes the run, on any number of
# machines.
#SBATCH --job-name=myxtts
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --signal=TERM@120
#SBATCH --requeue
set -euo pipefail

corpus=${1:?usage: sbatch slurm.sh CORPUS RUN [FLAGS]}
run=${2:?usage: sbatch slurm.sh CORPUS RUN [FLAGS]}

exec srun myxtts train "$corpus" --run-dir "$run" --resume auto --multi-gpu "${@:3}"
