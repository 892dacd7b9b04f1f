# Each target does all it needs on a fresh machine, `make setup` included. `make help` lists them.

PY := .venv/bin/python
READY := .venv/.ready
READY_DEV := .venv/.ready-dev
READY_EXPORT := .venv-export/.ready
READY_PEERS := .venv-peers/.ready
ARGS ?=
ONLY ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo run test test-browser test-export test-deploy check cover bench bench-peers figures docs lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' Makefile

setup: $(READY) ## the virtual environment .venv with what running needs
	@:

demo: $(READY) ## start the pipeline on free ports, send sample sentences, print results, stop
	@.venv/bin/inferq demo $(ARGS)

run: $(READY) ## start the whole pipeline and keep it until Ctrl-C
	@.venv/bin/inferq up $(ARGS)

test: $(READY_DEV) ## unit, integration and acceptance tests, in two processes (ARGS="…" goes to pytest)
	@sh scripts/require_rabbitmq.sh
	@$(PY) -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder $(ARGS)

test-browser: $(READY_DEV) ## the web pages in a real browser; pictures of them in build/browser
	@sh scripts/require_chromium.sh
	@$(PY) -m pytest tests/browser $(ARGS)

test-export: $(READY_EXPORT) ## tests of `inferq model export`, in an environment of their own with torch
	@.venv-export/bin/python -m pytest tests/export $(ARGS)

test-deploy: $(READY) ## compose.yaml in real containers: a demo, kills, scaling, a stop; installs Docker on Debian as root
	@bash deploy/verify.sh

check: $(READY_DEV) ## ruff, mypy, import-linter, and full coverage of the pure rooms
	@echo "ruff check"; .venv/bin/ruff check --quiet .
	@echo "ruff format"; .venv/bin/ruff format --quiet --check .
	@echo "mypy"; .venv/bin/mypy
	@echo "import-linter"; .venv/bin/lint-imports --no-logo
	@$(MAKE) --no-print-directory cover

cover: $(READY_DEV) ## unit tests alone must cover the pure rooms to 100 %
	@$(PY) scripts/cover_pure_rooms.py

bench: $(READY_DEV) ## figures, one line each; three hours (ONLY=batching, admission, push or loadgen; ARGS="--quick", "--part NAME", "--rounds N", "--full-size FOLDER")
	@$(PY) -m loadgen.bench $(if $(ONLY),--only $(ONLY)) $(ARGS)

bench-peers: $(READY_DEV) $(READY_PEERS) ## ours beside other servers, a report in docs/benchmarks; 50 minutes a model, 12 with ARGS="--rounds 2 --seconds 5" (also "--quick", "--peer NAME", "--full-size FOLDER")
	@$(PY) -m loadgen.peers $(ARGS)

figures: $(READY) ## compare the figures in README.md and docs/ with their reports (ARGS="--write" takes them over)
	@$(PY) -m scripts.figures $(ARGS)

docs: $(READY) ## write docs/settings.md anew from the table of settings
	@$(PY) scripts/settings_doc.py

lock: ## write the lock files anew (needs uv); ARGS="--upgrade" takes newer versions
	@sh scripts/lock.sh $(ARGS)

clean: ## remove caches and build files; the virtual environments stay
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .coverage.* htmlcov build dist *.egg-info
	@find inferq ingress batcher notifier loadgen scripts tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements.lock pyproject.toml scripts/setup.sh
	@sh scripts/setup.sh .venv requirements.lock
	@touch $@

$(READY_DEV): requirements-dev.lock pyproject.toml scripts/setup.sh
	@sh scripts/setup.sh .venv requirements-dev.lock
	@touch $(READY) $@

$(READY_EXPORT): requirements-dev.lock requirements-export.txt pyproject.toml scripts/setup.sh
	@sh scripts/setup.sh .venv-export requirements-dev.lock requirements-export.txt
	@touch $@

$(READY_PEERS): requirements-peers.lock scripts/setup.sh
	@sh scripts/setup.sh .venv-peers requirements-peers.lock
	@touch $@
