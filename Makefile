# Two commands for a newcomer: `make serve` and `make test`. Everything they need is made in .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# More than there are cores: much of what tests do is wait for processes. Each costs two seconds of collecting: eight took
# 166 s, ten 154 to 160, twelve 157.
WORKERS ?= 10

.PHONY: setup serve test check cover agents bench bench-check faults soak churn crash fuzz lock format dist screenshots dashboards reference prometheus clean

setup: $(STAMP)

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("ostler needs Python 3.11 or later; set PYTHON=..." if sys.version_info < (3, 11) else 0)'
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@echo "installing what ostler and its tests need into $(VENV): about a minute, and about 600 MB, on the first run"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -q wire process metrics demo pool bridge gateway  # the reaper keeps no bytecode of its own
	touch $@

serve: setup
	$(BIN)/ostler serve

# Bytecode is kept whatever the environment says: else every worker compiles 500 files anew before its first test.
test: export PYTHONDONTWRITEBYTECODE :=
test: setup
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy -p bench -p tools
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m tools.house --check

cover: setup
	$(BIN)/python -m coverage run -m pytest -q -m "not long"
	$(BIN)/python -m coverage report --show-missing --skip-covered

agents: setup
	$(BIN)/python -m tools.agents
	$(BIN)/python -m tools.conformance

bench: setup
	$(BIN)/python -m bench

bench-check: setup
	$(BIN)/python -m bench --check

# What the world does to a gateway under load: kills, stops, full disks, wrong clocks, lost clients, storms. Ten minutes and
# the looks between them; then which of the known failures have a test.
SECONDS_OF_FAULTS ?= 600
faults: setup
	$(BIN)/python -m tools.faults --seconds $(SECONDS_OF_FAULTS) $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tools.ids --failures

# Half an hour of 200 sessions on one gateway; `make soak SECONDS_OF_SOAK=120` for a look.
SECONDS_OF_SOAK ?= 1800
soak: setup
	$(BIN)/python -m tools.soak --seconds $(SECONDS_OF_SOAK)

# Ten minutes of random life on one pool.
SECONDS_OF_CHURN ?= 600
churn: setup
	$(BIN)/python -m tools.churn --seconds $(SECONDS_OF_CHURN)

# kill -9 at random moments beside other programs at the database, a full disk, a stopped writer: nothing that was
# acknowledged may be lost.
KILLS ?= 200
crash: setup
	$(BIN)/python -m tools.soak.crash --kills $(KILLS)

# Ten minutes over all targets.
SECONDS_OF_FUZZ ?= 600
fuzz: setup
	$(BIN)/python -m tools.fuzz --seconds $(SECONDS_OF_FUZZ) $(if $(SEED),--seed $(SEED))

# The pictures of the README, drawn anew from a real run; needs Chromium.
screenshots: setup
	$(BIN)/python -m tools.screenshots

# The committed dashboards, from their code.
dashboards: setup
	$(BIN)/python -m tools.dashboards

# docs/configuration.md from the typed settings, the tables of docs/agents.md from the providers.
reference: setup
	$(BIN)/python -m tools.reference

# A real Prometheus for the tests of dashboards and alerts: Debian's package, unpacked here and not installed. Without it
# (and without one on PATH) those tests are skipped and say so.
PROMETHEUS := .cache/prometheus
prometheus: $(PROMETHEUS)/usr/bin/prometheus
$(PROMETHEUS)/usr/bin/prometheus:
	rm -rf $(PROMETHEUS) && mkdir -p $(PROMETHEUS)
	cd $(PROMETHEUS) && { apt-get -qq download prometheus || { apt-get -qq update && apt-get -qq download prometheus; }; }
	dpkg -x $(PROMETHEUS)/prometheus_*.deb $(PROMETHEUS)
	rm $(PROMETHEUS)/prometheus_*.deb

# Refresh the pinned requirements (needs `uv` on PATH). No header and no index: no registry host may be committed.
lock:
	uv pip compile -q --universal --python-version 3.11 --no-header --no-annotate --generate-hashes --group dev pyproject.toml -o requirements/dev.txt
	uv pip compile -q --universal --python-version 3.11 --no-header --no-annotate --generate-hashes pyproject.toml -o requirements/base.txt
	uv pip compile -q --universal --python-version 3.11 --no-header --no-annotate --generate-hashes --all-extras pyproject.toml -o requirements/all.txt

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

dist: setup
	$(BIN)/python -m build --no-isolation --outdir dist .

clean:
	rm -rf $(VENV) .cache build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
