# Everything runs in .venv, which is rebuilt when its requirements change.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
MEASURES := $(VENV)/.measures
FIGURES := wer,mel_cepstral_distance,pitch_error
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
SENTENCE := The little boat sailed home before the storm arrived.

.PHONY: env eval-env demo quick test test-all faults bench docs check clean

env: $(STAMP)

# Third-party packages by hash; the build tools come first, for packages without wheels.
$(STAMP): pyproject.toml $(wildcard requirements/*.txt)
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --require-hashes --requirement requirements/build.txt
	$(INSTALL) --require-hashes --no-build-isolation --requirement requirements/dev.txt
	$(INSTALL) --no-deps --no-build-isolation --editable .
	# pip does not compile an editable package; otherwise the first command would.
	$(BIN)/python -m compileall -q myxtts
	touch $@

# The models of `myxtts evaluate`. PyTorch is installed without hashes, because its build and its index
# depend on the machine.
eval-env: $(STAMP)
	$(INSTALL) --require-hashes --no-build-isolation --requirement requirements/eval.txt
	$(INSTALL) --constraint constraints.txt --no-build-isolation --editable '.[eval,eval-torch]'

# The measures of demo that need no PyTorch: WER by an ASR model, and distances to recordings.
$(MEASURES): $(STAMP) requirements/eval.txt
	$(INSTALL) --require-hashes --no-build-isolation --requirement requirements/eval.txt
	touch $@

demo: $(MEASURES)
	@mkdir -p demo
	@$(BIN)/myxtts synthesize --text "$(SENTENCE)" --language en --out demo/base.wav
	@echo "Listen to: demo/base.wav, the included base model in one of its voices"
	@test -d demo/voice || $(BIN)/myxtts demo-data demo/voice --natural
	@rm -rf demo/run
	@$(BIN)/myxtts train demo/voice --config demo --run-dir demo/run
	@$(BIN)/myxtts synthesize demo/run --text "$(SENTENCE)" --language en --out demo/speech.wav
	@echo "Measuring 28 sentences of hers that were not trained on, before and after ..."
	@$(BIN)/myxtts evaluate base --data demo/voice --count 28 --only $(FIGURES) --json > demo/before.json
	@$(BIN)/myxtts evaluate demo/run --count 28 --only $(FIGURES) --json > demo/after.json
	@$(BIN)/myxtts compare base demo/run --out demo/comparison
	@echo
	@echo "Said:      $(SENTENCE)"
	@echo "Listen to: demo/speech.wav, her voice after three minutes of it; demo/voice/wavs are recordings"
	@echo "Next:      your own recordings: docs/en/quick-start.md"

quick: $(STAMP)
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m 'not slow and not training and not program'

# Two workers instead of one per core, because each loads TensorFlow and trains. Memory of TensorFlow
# grows with every training, so each group of tests has new workers.
FIRST := tests/training tests/runs tests/devices
SECOND := tests/cli tests/faults tests/evaluation tests/serving
test: $(STAMP)
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile $(FIRST)
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile $(SECOND)
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile $(addprefix --ignore=,$(FIRST) $(SECOND))

# An hour or more: all tests, with the whole matrix of tests/training/test_matrix.py.
test-all: $(STAMP)
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m ''

# Fault tolerance is also tested outside tests/faults.
FAULTS := tests/faults tests/runs tests/data/test_features.py tests/data/test_workers.py \
	tests/cli/test_console.py tests/config/test_loading.py tests/collect/test_reviewing.py \
	$(addprefix tests/training/test_,interruption.py keeping.py machines.py replicas.py resuming.py) \
	$(addprefix tests/packaging/test_,hashes.py licences.py) $(wildcard tests/test_*_files.py)

# Takes hours: kill -9, full disks, signals in every phase, a hundred thousand bad inputs.
faults: $(STAMP)
	$(BIN)/python -m pytest -m '' $(FAULTS)
	$(BIN)/python tests/faults/kills.py --kills 60 --last 10
	$(BIN)/python tests/faults/kills.py --kills 30 --last 5 --mode multi
	$(BIN)/python tests/faults/kills.py --kills 10 --last 2 --measure
	$(BIN)/python tests/faults/fuzz.py --inputs 100000
	$(BIN)/python benchmarks/serving.py --clients 64 --seconds 60 --repeats 1

# Next to other systems, which are installed into peers/. An hour on two cores.
BENCH := $(BIN)/python benchmarks
bench: $(STAMP)
	@mkdir -p bench
	@test -d demo/corpus || $(BIN)/myxtts demo-data demo/corpus
	@test -d peers || $(BENCH)/peers/install.py peers loaders kokoro hibari kokoro-fastapi
	$(BENCH)/feeding.py --train-data demo/corpus --peers peers --json bench/feeding.json --picture bench/feeding.png
	$(BENCH)/retracing.py --steps 60 --variable-steps 16 --json bench/retracing.json --picture bench/retracing.png
	$(BENCH)/step.py --peers peers --json bench/step.json --picture bench/step.png
	$(BENCH)/growth.py --json bench/growth.json --picture bench/growth.png
	$(BENCH)/serving.py --peers peers --json bench/serving.json --picture bench/serving.png
	$(BENCH)/harness.py bench/*.json > bench/table.md

# --quiet would disable --strict. The variable silences an advertisement of the theme.
BUILD_SITE := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs: $(STAMP)
	$(BIN)/python tools/docs/settings_page.py
	$(BUILD_SITE)

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/docs/wording.py
	$(BIN)/python tools/docs/settings_page.py --check
	$(BUILD_SITE)

clean:
	rm -rf $(VENV) base-evaluation bench peers demo runs build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache
