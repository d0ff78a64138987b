# Everything runs in .venv, which is made when it is missing or older than what it is made from.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
SENTENCE := The little boat sailed home before the storm arrived.

.PHONY: env eval-env demo quick test test-all faults docs check clean

env: $(STAMP)

# Packages of others by their hashes, the build tools first: what has no wheel is built with them.
$(STAMP): pyproject.toml $(wildcard requirements/*.txt)
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --require-hashes --requirement requirements/build.txt
	$(INSTALL) --require-hashes --no-build-isolation --requirement requirements/dev.txt
	$(INSTALL) --no-deps --no-build-isolation --editable .
	# pip compiles only what it copies; without this the first command would, or every one.
	$(BIN)/python -m compileall -q myxtts
	touch $@

# What `myxtts evaluate` measures with: a recogniser, voices, quality. It brings PyTorch, which has no
# hashes here: which build of it fits the machine, and from which index, is the user's choice.
eval-env: $(STAMP)
	$(INSTALL) --require-hashes --no-build-isolation --requirement requirements/eval.txt
	$(INSTALL) --constraint constraints.txt --no-build-isolation --editable '.[eval,eval-torch]'

demo: $(STAMP)
	@mkdir -p demo
	@$(BIN)/myxtts synthesize --text "$(SENTENCE)" --voice callie --language en --out demo/base.wav
	@test -d demo/corpus || $(BIN)/myxtts demo-data demo/corpus
	@rm -rf demo/run
	@$(BIN)/myxtts train demo/corpus --config demo --init-from base --run-dir demo/run
	@voice=$$(ls demo/corpus/wavs/en-*-f2.wav | tail -n 1) && \
	$(BIN)/myxtts synthesize demo/run --text "$(SENTENCE)" \
		--speaker-wav "$$voice" --language en --out demo/speech.wav && \
	echo && \
	echo "Said:      $(SENTENCE)" && \
	echo "Voice of:  $$voice (a clip that the model was not trained on)" && \
	echo "Listen to: demo/speech.wav, and to demo/base.wav: the base model before this training" && \
	echo "Next:      your own recordings: docs/en/quick-start.md"

quick: $(STAMP)
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m 'not slow and not training and not program'

# Two at a time, and not as many as there are cores: each worker holds TensorFlow and trains.
test: $(STAMP)
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile

# An hour or more: the whole matrix of tests/training/test_matrix.py, and all that is marked slow.
test-all: $(STAMP)
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m ''

# Beside tests/faults: what mirrors a module and holds against faults.
FAULTS := tests/faults tests/runs tests/data/test_features.py tests/data/test_workers.py \
	tests/cli/test_console.py tests/config/test_loading.py tests/collect/test_reviewing.py \
	$(addprefix tests/training/test_,interruption.py keeping.py machines.py replicas.py resuming.py) \
	$(addprefix tests/packaging/test_,hashes.py licences.py) $(wildcard tests/test_*_files.py)

# Hours: kill -9, full disks, signals in every phase, a hundred thousand bad inputs.
faults: $(STAMP)
	$(BIN)/python -m pytest -m '' $(FAULTS)
	$(BIN)/python tests/faults/kills.py --kills 60 --last 10
	$(BIN)/python tests/faults/kills.py --kills 30 --last 5 --mode multi
	$(BIN)/python tests/faults/kills.py --kills 10 --last 2 --measure
	$(BIN)/python tests/faults/fuzz.py --inputs 100000

# With --quiet nothing would be strict. The variable silences an advertisement of the theme.
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
	rm -rf $(VENV) demo runs build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache
