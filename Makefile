# Two commands: `make learn` sets up and runs the main job, `make test` sets up, checks, and runs all tests but the slow
# ones; `make test-slow` runs those, `make test-all` both.
SHELL := /bin/bash
BIN := .venv/bin
TYPES := .cache/types/fedbnsl
export OMP_NUM_THREADS = 1
export OPENBLAS_NUM_THREADS = 1
# Compiled Python is kept, whatever the surroundings say: without it every program compiles all that it imports anew.
export PYTHONDONTWRITEBYTECODE =

.PHONY: setup learn test test-tracking test-slow test-platforms test-all image mutants suite ui-test docs lint types contracts bench ui constraints release clean

setup: .venv/ready

.venv/ready: .venv/installed
	$(BIN)/python -m fedbnsl.flows.cli.warm
	touch $@

# uv does the work in seconds, and refuses a package whose hash is not in constraints.txt. cdt is only the carrier of the
# Sachs table, and causal-learn with pydot is only there to test graphs for it, so nothing they depend on is installed.
.venv/installed: $(BIN)/uv pyproject.toml constraints.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --constraints constraints.txt --editable '.[dev]'
	$(BIN)/uv pip install --quiet --python $(BIN)/python --constraints constraints.txt --no-deps \
		cdt causal-learn pydot
	touch $@

$(BIN)/uv:
	python3 -m venv .venv
	sed -n '/^uv==/,/[^\\]$$/p' constraints.txt > .venv/uv.txt
	$(BIN)/python -m pip install --quiet --require-hashes --requirement .venv/uv.txt

learn: setup
	@test -d example || $(BIN)/fedbnsl prepare homogeneous example --variables 20 --silos 8 --rows 5000 --seed 2
	$(BIN)/fedbnsl learn example --seed 0

# One process at a time compiles. Meanwhile, the other core checks types and tests what calls no compiled function. Two
# processes do so, at a lower priority: if all is compiled, they have both cores.
test: .venv/installed
	@$(MAKE) --no-print-directory --jobs 2 lint contracts .cache/compiled test-tracking
	@$(MAKE) --no-print-directory suite FOLDERS='tests --ignore tests/tracking'

test-tracking: setup
	nice $(BIN)/python -m pytest --numprocesses 2 --max-worker-restart 0 --dist loadfile -m 'not slow' --cpu tests/tracking

test-slow:
	@$(MAKE) --no-print-directory suite TESTS="slow and not platforms"

test-all: test test-slow

# Runs over each platform's own processes, which are installed with fedbnsl into an environment for each platform.
PLATFORMS := flower nvflare vantage6
test-platforms: setup $(PLATFORMS:%=.cache/platforms/%/ready)
	$(BIN)/python -m pytest -n 0 -m platforms --durations 20 tests/platforms

.cache/platforms/%/ready: $(BIN)/uv pyproject.toml
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(@D)
	$(BIN)/uv pip install --quiet --python $(@D)/bin/python --compile-bytecode --editable '.[$*]'
	touch $@

# The image, built and run where a builder works; elsewhere its instructions in a chroot, as root.
image:
	python3 deploy/image.py

# Known defects, planted one at a time: each must be noticed.
mutants: setup .cache/compiled
	$(BIN)/python tests/mutants.py

# The tests in FOLDERS whose markers fit TESTS, with the seconds of processor time by folder. A process that crashes ends the
# suite, because a suite that goes on without it may never end.
TESTS := not slow and not platforms
FOLDERS := tests
suite: setup .cache/compiled
	$(BIN)/python -m pytest --numprocesses 3 --max-worker-restart 0 --dist loadfile --no-loadscope-reorder -m '$(TESTS)' --cpu $(FOLDERS)

# The tests marked `compiles` use most compiled functions. Without them each process of the suite compiles them all for
# itself, which takes minutes. All tests are collected, so that each process finds the compiled test modules, too. Whether
# the marked tests pass is for the suite to say.
COMPILED := $(shell grep -rl --include='*.py' '@njit' algorithms)
.cache/compiled: .venv/ready $(COMPILED)
	@mkdir -p .cache
	@echo "compile numba functions once"
	-@$(BIN)/python -m pytest -n 0 -m compiles > .cache/compiling.txt
	@touch $@

# The pages in headless Chromium, if there is one; what they showed is in .cache/ui/.
ui-test: setup
	FEDBNSL_UI_TEST=1 $(BIN)/python -m pytest tests/ui -n 0 -rs

# The documentation site, for a browser or any server of files; its own pages run their commands.
docs: setup
	$(BIN)/uv pip install --quiet --python $(BIN)/python --constraints constraints.txt --editable '.[docs]'
	$(BIN)/python docs/site/build.py .cache/docs

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/complexipy algorithms data flows tasks tracking --max-complexity-allowed 15 --failed --plain --cache-dir .cache/complexity

types: .venv/installed
	@mkdir -p $(TYPES)
	@for room in algorithms data flows tasks tracking; do ln -sfn ../../../$$room $(TYPES)/$$room; done
	@for file in fedbnsl/*; do ln -sfn ../../../$$file $(TYPES)/; done
	MYPYPATH=.cache/types $(BIN)/mypy --strict -p fedbnsl

contracts: types
	cd .cache/types && ../../$(BIN)/lint-imports --config ../../pyproject.toml

bench: setup
	$(BIN)/python benchmarks/real.py
	$(BIN)/python benchmarks/tables.py
	$(BIN)/python benchmarks/bootstrap.py
	$(BIN)/python benchmarks/continuous.py
	$(BIN)/python benchmarks/private.py
	$(BIN)/python benchmarks/disclosure.py
	$(BIN)/python benchmarks/constraint.py
	$(BIN)/python benchmarks/lucas.py
	$(BIN)/python benchmarks/score.py
	$(BIN)/python benchmarks/published.py
	$(BIN)/python benchmarks/effects.py
	$(BIN)/python benchmarks/fit.py
	$(BIN)/python benchmarks/tune.py
	$(BIN)/python benchmarks/experiments.py
	$(BIN)/python benchmarks/dynamic.py
	$(BIN)/python benchmarks/events.py
	$(BIN)/python benchmarks/nonlinear.py
	$(BIN)/python benchmarks/additive.py
	$(BIN)/python benchmarks/startup.py --clone
	$(BIN)/python benchmarks/orchestration.py
	$(BIN)/python benchmarks/faults.py
	$(BIN)/python benchmarks/silo_faults.py
	$(BIN)/python benchmarks/endurance.py
	$(BIN)/python benchmarks/papers.py structure-dp-figure-1 structure-dp-figure-4 structure-dp-figure-6
	$(BIN)/python benchmarks/pages.py

ui: setup
	$(BIN)/fedbnsl ui

# Pins for every supported Python, from the ranges in pyproject.toml, with the hashes of all files; causal-learn,
# cdt, pydot and uv are pinned without what they depend on. Platforms have environments of their own (test-platforms).
EXTRAS := orchestration sql tables release server docs dev
PIN := $(BIN)/uv pip compile --universal --python-version 3.11 --no-header --no-annotate --quiet --generate-hashes
constraints: $(BIN)/uv
	$(PIN) pyproject.toml $(EXTRAS:%=--extra %) --output-file constraints.txt
	printf 'causal-learn==0.1.4.8\ncdt==0.6.0\npydot==4.0.1\nuv==%s\n' "$$($(BIN)/uv --version | cut -d' ' -f2)" | $(PIN) --no-deps - >> constraints.txt

# A release: the wheel, the source, and the SBOM (CycloneDX) of what the wheel depends on, with hashes, in dist/.
release: $(BIN)/uv
	$(BIN)/uv build --quiet
	$(PIN) pyproject.toml --extra orchestration --constraints constraints.txt --output-file dist/requirements.txt
	$(BIN)/uv tool run --quiet --constraints constraints.txt --from cyclonedx-bom cyclonedx-py requirements \
		dist/requirements.txt --pyproject pyproject.toml --output-reproducible --of JSON -o dist/fedbnsl.cdx.json

clean:
	rm -rf .venv .cache build dist *.egg-info
