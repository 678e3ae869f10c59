# Everything that can be done with this checkout. `make help` lists it.

GO      ?= go
BIN     := $(CURDIR)/bin
# Programs of this checkout are compiled as the shipped ones are: both share the build cache.
RUN     := CGO_ENABLED=0 $(GO) run -trimpath
# Plugins that others wrote, each with a scenario that both managers run. They are modules of their own: each asks for its own
# version of Kubernetes' libraries.
PLUGINS := $(patsubst %/go.mod,%,$(wildcard dev/plugins/*/go.mod))
# Modules besides the root's own, each checked like it.
MODULES := dev/localcluster/binaries dev/e2e/upstream/programs examples/provider examples/vendor dev/bench dev/bench/metal/programs dev/chart dev/demo $(PLUGINS) dev/tools

.DEFAULT_GOAL := help
.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: preflight
preflight:
	@./.ci/preflight

.PHONY: demo
demo: preflight ## Watch nodes being initialized on a real control plane
	@$(RUN) ./dev/cmd/gobuild -o $(BIN) ./cmd/mooring ./cmd/cloud-controller-manager
	@cd dev/demo && $(RUN) github.com/mooring-ccm/mooring/dev/cmd/gobuild -o $(BIN) ./cmd/demo
	@$(BIN)/demo $(ARGS)

.PHONY: build
build: preflight ## Build the daemon and the tool into bin/
	@$(RUN) ./dev/cmd/gobuild -o $(BIN) ./cmd/mooring ./cmd/cloud-controller-manager

.PHONY: image
image: build ## Write the daemon as an OCI image for amd64 and arm64 into out/
	@mkdir -p $(CURDIR)/out
	@$(BIN)/mooring build --image $(CURDIR)/out/cloud-controller-manager.tar --platform linux/amd64,linux/arm64 $(ARGS)

.PHONY: release
release: preflight ## Write a release into out/release/VERSION: make release VERSION=v0.1.0 [KEY=FILE]
	@cd dev/tools/release && $(RUN) . --root $(CURDIR) --version "$(VERSION)" --key "$(KEY)" $(ARGS)

.PHONY: check
check: preflight ## Build, lint, and run the unit tests: what to run after each change
	@./.ci/check

.PHONY: test
test: preflight ## Run the linters, and the tests on real API servers too
	@./.ci/test

.PHONY: deps
deps: ## Install the Debian packages that the rest of the tests need, and say which (root)
	@./.ci/deps

.PHONY: test-all
test-all: preflight ## Run every test there is, with the race detector too: make test-all [ARGS="race versions"] (root, make deps)
	@./.ci/test-all $(ARGS)

.PHONY: fuzz
fuzz: ## Run every fuzz target for a while, one after the other: make fuzz [FUZZTIME=1m] [FUZZ=pattern of package/target]
	@./.ci/fuzz "$(or $(FUZZTIME),1m)" "$(FUZZ)"

.PHONY: test-e2e
test-e2e: preflight ## Run specs of Kubernetes' own end-to-end tests, few or all: make test-e2e [ARGS=all] (root, make deps)
	@MOORING_REQUIRE_ALL=1 MOORING_UPSTREAM=$(or $(ARGS),few) CGO_ENABLED=0 $(GO) test -trimpath -vet=off -count=1 -v -timeout 3h ./dev/e2e/upstream

.PHONY: test-plugins
test-plugins: preflight ## Run the scenarios with the plugins of AWS, Google and others under both managers, and compare
	@for plugin in $(PLUGINS); do echo "$$plugin"; CGO_ENABLED=0 $(GO) -C $$plugin test -trimpath -vet=off -timeout 20m $(ARGS) ./... || exit 1; done

.PHONY: openstack
openstack: preflight ## Start a private OpenStack of Debian's packages until Ctrl-C, and say how to log in (root)
	@$(RUN) ./dev/cmd/gobuild -o $(BIN) ./dev/openstack/cmd/openstack
	@$(BIN)/openstack $(ARGS)

.PHONY: test-openstack
test-openstack: preflight ## Run the tests that need a real OpenStack, which is installed first (root)
	@$(RUN) ./dev/cmd/gobuild -o $(BIN) ./dev/openstack/cmd/openstack
	@$(BIN)/openstack -install
	@MOORING_REQUIRE_OPENSTACK=1 CGO_ENABLED=0 $(GO) test -trimpath -vet=off -count=1 -p 1 -timeout 30m $(ARGS) ./dev/openstack/...
	@MOORING_REQUIRE_OPENSTACK=1 MOORING_DEMO_OPENSTACK=1 CGO_ENABLED=0 $(GO) -C dev/demo test -trimpath -vet=off -count=1 -timeout 30m \
		-run '^TestDemoOpenStack' $(ARGS) ./cmd/demo

.PHONY: test-versions
test-versions: preflight ## Run the integration tests on each version of Kubernetes: make test-versions [ARGS=chosen]
	@./.ci/test-versions $(ARGS)

.PHONY: lint
lint: preflight ## Check the source of all modules: formatting, vet, staticcheck, tidiness, licenses
	@./.ci/lint . $(MODULES)

.PHONY: lint-modules
lint-modules: preflight
	@./.ci/lint $(MODULES)

.PHONY: vulnerabilities
vulnerabilities: preflight ## Look both programs up in Go's vulnerability database (MOORING_VULNDB: a mirror of it)
	@./.ci/vulnerabilities

.PHONY: bench
bench: preflight ## Measure Mooring beside the reference cloud controller manager (70 minutes at most)
	@cd dev/bench && $(RUN) github.com/mooring-ccm/mooring/dev/cmd/gobuild -o $(BIN) ./cmd/bench && $(BIN)/bench $(ARGS)
	@$(if $(ARGS),,cd dev/bench && $(RUN) ./cmd/report)

.PHONY: profile
profile: ## Take profiles of processor time and allocations while 1,000 nodes join, and while they fall silent
	@$(MAKE) bench ARGS="--profiles --scenarios join-1000,notready-1000 --variants mooring-plain,mooring-bulk $(ARGS)"

.PHONY: bench-scale
bench-scale: preflight ## Measure Mooring with 1,000 to 15,000 nodes, and how each figure grows (20 minutes)
	@cd dev/bench && $(RUN) github.com/mooring-ccm/mooring/dev/cmd/gobuild -o $(BIN) ./cmd/bench-scale && $(BIN)/bench-scale $(ARGS)
	@$(if $(ARGS),,cd dev/bench && $(RUN) ./cmd/report --scale)

# One after the other: each has both processors to itself.
.PHONY: bench-metal
bench-metal: preflight ## Measure Mooring beside MetalLB (55 minutes), BGP with 10,000 load balancers and its rolling upgrade (root)
	@cd dev/bench && $(RUN) github.com/mooring-ccm/mooring/dev/cmd/gobuild -o $(BIN) ./cmd/bench-metal && $(BIN)/bench-metal $(ARGS)
	@$(if $(ARGS),,for test in TestScale TestReplacedWhenReady; do \
		MOORING_BGP_SCALE=10000 CGO_ENABLED=0 $(GO) test -trimpath -vet=off -count=1 -v -timeout 20m -run "^$$test\$$" ./providers/metal/lb/bgp || exit 1; done)

.PHONY: bench-openstack
bench-openstack: build ## Count calls of a real OpenStack: make bench-openstack [UPSTREAM=PROGRAM] (root)
	@$(RUN) ./dev/cmd/gobuild -o $(BIN) ./dev/openstack/bench/cmd/bench-openstack
	@$(BIN)/bench-openstack -daemon $(BIN)/cloud-controller-manager $(if $(UPSTREAM),-upstream $(UPSTREAM)) $(ARGS)

SEED     ?= 1
DURATION ?= 10m

.PHONY: chaos
chaos: preflight ## Disturb the whole system by a schedule, and check it: make chaos SEED=7 DURATION=10m
	@$(RUN) ./dev/cmd/gobuild -o $(BIN) ./dev/chaos/cmd/chaos
	@$(BIN)/chaos run --seed=$(SEED) --duration=$(DURATION) $(ARGS)

DRAWS ?= 100

MOVES ?= 1000

.PHONY: adversary
adversary: preflight ## Try what a stolen kubelet credential and a tenant can do to a cluster: make adversary SEED=1 MOVES=1000
	@CGO_ENABLED=0 $(GO) test -trimpath -vet=off -count=1 -v -timeout 60m ./dev/adversary -run 'TestAStolenKubelet|TestATenant' $(ARGS) -seed=$(SEED) -moves=$(MOVES)

.PHONY: simulate
simulate: preflight ## Run both managers on random plugins, clouds and clusters in virtual time: make simulate SEED=1 DRAWS=100
	@$(RUN) ./dev/cmd/gobuild -o $(BIN) ./dev/simulation/cmd/simulate
	@$(BIN)/simulate --seed=$(SEED) --draws=$(DRAWS) $(ARGS)

.PHONY: soak
soak: preflight ## Churn at 2,000 nodes and 500 Services, and check that the manager does not grow: make soak DURATION=30m
	@$(RUN) ./dev/cmd/gobuild -o $(BIN) ./dev/chaos/cmd/chaos
	@$(BIN)/chaos soak --seed=$(SEED) --duration=$(DURATION) $(ARGS)

.PHONY: mutants
mutants: preflight ## Check that the schedules find each of the mistakes that dev/chaos/mutants makes in the manager
	@$(RUN) ./dev/cmd/gobuild -o $(BIN) ./dev/chaos/cmd/chaos
	@$(BIN)/chaos mutants $(ARGS)

.PHONY: generate
generate: ## Write the generated files anew
	$(GO) generate ./...
	cd dev/chart && $(GO) run ./cmd/render

.PHONY: clean
clean: ## Remove what was built in this checkout (the cached control plane stays)
	rm -rf $(BIN) $(CURDIR)/out
