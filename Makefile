# Common tasks. `make help` lists them. Needs Rust 1.95 or newer and a C compiler: LuaJIT and the TLS
# library are built from source that cargo downloads.

CARGO ?= cargo
PREFIX ?= /usr/local
DESTDIR ?=
# Names under which `make install` links the binary: `make install LINKS="wrk wrk2 wrk-cmm"`.
LINKS ?=
BENCH_ARGS ?=
TRUTH_ARGS ?=
LLM_ARGS ?=
GRPC_ARGS ?=
FUZZ_SECONDS ?= 60

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
VERSION := $(shell sed -n 's/^version = "\(.*\)"$$/\1/p' Cargo.toml)
# What `make install` installs. If it is for another processor, RUNNABLE is the same version for this
# one: it prints manual pages and completions.
WRKBENCH := $(TARGET_DIR)/release/wrkbench
RUNNABLE ?= $(WRKBENCH)

BIN_DIR := $(DESTDIR)$(PREFIX)/bin
MAN_DIR := $(DESTDIR)$(PREFIX)/share/man/man1
DOC_DIR := $(DESTDIR)$(PREFIX)/share/doc/wrkbench
INSTALLED_FOLDERS := docs docs/pictures docs/data/buffertest docs/decisions examples/scripts \
    examples/experiments examples/fleet examples/grafana examples/traces examples/adapters \
    examples/board examples/board/hyper examples/board/hyper/src examples/adapters/httparena examples/adapters/the-benchmarker deploy deploy/k8s deploy/systemd
BASH_DIR := $(DESTDIR)$(PREFIX)/share/bash-completion/completions
ZSH_DIR := $(DESTDIR)$(PREFIX)/share/zsh/site-functions
FISH_DIR := $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d

# Tests send signals. A process that was started with nohup, or with & by a script, ignores some of
# them, and so do all processes that it starts. GNU's env resets that.
WITH_SIGNALS := $(shell env --default-signal=HUP true 2>/dev/null && echo env --default-signal=HUP,INT,QUIT)

# Tests mostly wait for runs with a fixed duration, so two at a time on each CPU.
export RUST_TEST_THREADS ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))

.PHONY: build demo test test-program test-crates test-slow test-fleet test-all test-epoll test-schema \
    test-browser test-packages readers collectors h2specd test-readers faults kill bench bench-llm bench-grpc truth \
    instructions telemetry-cost schema fuzz check doc site install uninstall pictures dist dist-check \
    dist-gnu deb \
    container formula sbom sums packages-check fleet fleet-alone fleet-failures \
    deploy-check clean help

build: ## build the release binary (the default)
	$(CARGO) build --release --locked -p wrkbench

demo: build ## load the built-in server for 8 s, print the report, write demo-result.html
	$(WRKBENCH) demo

# Tests of the program mostly wait, those of the crates mostly compute, so both run at the same time.
test: ## run the tests that every change needs; those that need a missing program say so
	$(CARGO) test --workspace --locked --no-run
	@sh scripts/count-tests.sh $(MAKE) --jobs 2 --keep-going --output-sync test-program test-crates

# Other servers, all documents, all faults, all backends, and profiles, whose servers need a CPU that
# no other test uses: the longest of the tests.
test-slow: ## run the tests that `make test` leaves out

# Without MAKEFLAGS, cargo does not look for the jobserver of make, which it could not reach.
test-program test-crates test-slow test-fleet:
	MAKEFLAGS= WRKBENCH_TESTS=$(@:test-%=%) $(WITH_SIGNALS) \
	    $(CARGO) test --workspace --locked --no-fail-fast \
	    --config "target.'cfg(all())'.runner = ['sh', '$(CURDIR)/scripts/run-test.sh']"

test-all: test-packages readers h2specd ## install what tests need and run all of them, also on epoll
	$(MAKE) test
	$(MAKE) test-slow
	$(MAKE) fleet-alone
	$(MAKE) --jobs 3 --keep-going --output-sync test-browser $(FLEET_TESTS) test-epoll test-schema

test-schema: ## compare docs/*.schema.json with the types that are written
	$(CARGO) test -p results -p outputs --features results/schema,outputs/schema --test schema --locked

# The conformance suite tests both backends alike. These tests are about what depends on them.
test-epoll: ## run the tests of runs and of faults on epoll
	WRKBENCH_TEST_IO=epoll $(WITH_SIGNALS) $(CARGO) test -p wrkbench --locked --test run \
	    --test faults

test-browser: ## open report pages in a headless Chromium; screenshots go to target/screenshots
	CARGO="$(CARGO)" sh scripts/test-browser.sh

test-packages: ## install the Debian packages that tests need; does nothing if they are installed
	sh scripts/install-test-packages.sh

readers: ## install the programs that read our file formats in tests, below target/; never fails
	sh scripts/install-readers.sh

collectors: ## build Prometheus 3 and an OpenTelemetry Collector for tests, below target/; never fails
	sh scripts/install-collectors.sh

h2specd: ## build h2specd, the test of HTTP/2 clients, below target/; needs Go; never fails
	sh scripts/install-h2specd.sh

test-readers: readers ## read every exported format with the programs it is made for
	$(CARGO) test -p report --test readers --locked

faults: test-packages ## inject every fault on each backend, print tables; WRKBENCH_FAULTS=F9,F12 selects
	$(WITH_SIGNALS) $(CARGO) test -p wrkbench --test faults --locked -- --ignored --nocapture
	WRKBENCH_TEST_IO=epoll $(WITH_SIGNALS) $(CARGO) test -p wrkbench --test faults --locked -- --ignored --nocapture

kill: test-packages ## kill sweeps at fifty random moments, check that all is restored; needs root
	$(WITH_SIGNALS) $(CARGO) test -p wrkbench --test kill --locked -- --ignored --nocapture

fleet: test-packages fleet-alone ## run the tests of fleets, also in network namespaces, which needs root
	$(MAKE) --jobs 2 --keep-going --output-sync $(FLEET_TESTS)

# These suites mostly wait, so they run at the same time.
FLEET_TESTS := fleet-failures test-fleet

# These tests check when requests arrive, or have a thousand threads, so nothing runs beside them.
# With `-p cluster`, cargo would compile dependencies again, with fewer features.
fleet-alone:
	$(WITH_SIGNALS) $(CARGO) test -p wrkbench --test fleet --locked -- --ignored --nocapture \
	    --test-threads 1 figures:: orders::
	$(CARGO) test --workspace --test fleet --locked -- --ignored --nocapture five_hundred

fleet-failures:
	$(WITH_SIGNALS) $(CARGO) test -p wrkbench --test fleet --locked -- --ignored --nocapture \
	    --test-threads 6 --skip figures:: --skip orders::
	$(CARGO) test -p wrkbench --lib --no-default-features --locked -- fleet:: every_option

deploy-check: ## check deploy/ with systemd-analyze, docker compose and kubectl, if they are there
	sh scripts/check-deploy.sh

bench: build ## compare the speed with wrk; BENCH_ARGS="--help" lists options
	$(CARGO) build --release --locked -p bench
	$(TARGET_DIR)/release/bench $(BENCH_ARGS)
	$(if $(BENCH_ARGS),,$(if $(shell command -v aiperf || command -v guidellm),$(MAKE) bench-llm))

bench-llm: build ## compare tokens with AIPerf and guidellm, if on PATH; LLM_ARGS="--help" lists options
	python3 bench/llm.py --wrkbench $(WRKBENCH) $(LLM_ARGS)

bench-grpc: build ## compare gRPC calls with ghz, if on PATH; GRPC_ARGS="--help" lists options
	python3 bench/grpc.py --wrkbench $(WRKBENCH) $(GRPC_ARGS)

truth: build ## compare the numbers with the log of the server; TRUTH_ARGS="--help" lists options
	$(CARGO) build --release --locked -p bench
	$(TARGET_DIR)/release/truth $(TRUTH_ARGS)

instructions: build ## compare instructions per request with bench/instructions.txt; needs valgrind
	sh scripts/instructions.sh $(WRKBENCH)

pictures: build ## take the pictures of the documents from real runs; needs tmux, node and Chromium
	sh scripts/pictures.sh

telemetry-cost: ## measure the CPU time of sampling 300 sockets once a second
	$(CARGO) run --release --locked -p telemetry --example sampler_cost

schema: ## write docs/*.schema.json, which are generated from the types that are written
	WRKBENCH_WRITE_SCHEMA=1 $(CARGO) test -p results -p outputs --features results/schema,outputs/schema --test schema --locked

fuzz: ## run each fuzz target for FUZZ_SECONDS seconds; needs cargo-fuzz
	@command -v cargo-fuzz >/dev/null || { \
	    echo "make fuzz: cargo-fuzz is missing; install it with: cargo install cargo-fuzz" >&2; exit 1; }
	@set -e; for path in fuzz/fuzz_targets/*.rs; do \
	    name=$$(basename "$$path" .rs); \
	    echo "== $$name, $(FUZZ_SECONDS) s"; \
	    RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run "$$name" -- -max_total_time=$(FUZZ_SECONDS); \
	done

check: ## check format and lints, without tests
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# Links to private items help those who read the source.
doc: ## build the documentation of the code; warnings are errors
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" $(CARGO) doc --workspace --no-deps --locked

site: ## build the site of docs/ in target/site and look for dead links in it; needs python3
	CARGO="$(CARGO)" sh scripts/site.sh

install: ## install binary, man pages, completions, docs and examples in PREFIX; run `make` first
	@test -x $(WRKBENCH) || { echo "make install: $(WRKBENCH) is not built; run make first" >&2; exit 1; }
	install -d $(BIN_DIR) $(MAN_DIR) $(DOC_DIR) $(BASH_DIR) $(ZSH_DIR) $(FISH_DIR)
	install -m 755 $(WRKBENCH) $(BIN_DIR)/wrkbench
	$(RUNNABLE) man --output-dir $(MAN_DIR)
	$(RUNNABLE) completions bash > $(BASH_DIR)/wrkbench
	$(RUNNABLE) completions zsh > $(ZSH_DIR)/_wrkbench
	$(RUNNABLE) completions fish > $(FISH_DIR)/wrkbench.fish
	install -m 644 *.md LICENSE-APACHE LICENSE-MIT $(DOC_DIR)
	@# With the folders of the repository, since documents refer to each other by these paths.
	@for folder in $(INSTALLED_FOLDERS); do \
	    install -d $(DOC_DIR)/$$folder && \
	    find $$folder -maxdepth 1 -type f -exec install -m 644 -t $(DOC_DIR)/$$folder {} + || exit 1; done
	@# With a manual page each: one of the other tool would describe another program.
	@for name in $(LINKS); do ln -sf wrkbench "$(BIN_DIR)/$$name" && \
	    ln -sf wrkbench.1 "$(MAN_DIR)/$$name.1" && echo "linked $(BIN_DIR)/$$name" || exit 1; done

uninstall: ## remove everything that install created, including links
	@for path in $(BIN_DIR)/* $(MAN_DIR)/*; do case $$(readlink "$$path") in \
	    wrkbench | wrkbench.1) rm -f "$$path" ;; esac; done
	rm -f $(BIN_DIR)/wrkbench $(MAN_DIR)/wrkbench.1 $(MAN_DIR)/wrkbench-*.1
	rm -f $(BASH_DIR)/wrkbench $(ZSH_DIR)/_wrkbench $(FISH_DIR)/wrkbench.fish
	rm -rf $(DOC_DIR)

dist: ## build static binaries and their archives in target/dist
	CARGO="$(CARGO)" sh scripts/dist.sh

dist-check: dist ## run the static binaries in an empty root, build them again elsewhere, compare
	CARGO="$(CARGO)" sh scripts/dist-check.sh

dist-gnu: ## build the dynamic binary, try it with Lua modules written in C, pack it in target/dist
	CARGO="$(CARGO)" sh scripts/dist-gnu.sh

deb: ## make Debian packages in target/dist from the archives of `make dist-gnu`
	CARGO="$(CARGO)" sh scripts/deb.sh

container: ## make container images in target/dist; needs buildah, podman or docker
	CARGO="$(CARGO)" sh scripts/container.sh

formula: ## write the Homebrew formula of the archives in target/dist
	sh scripts/formula.sh

sbom: ## write the software bill of materials (CycloneDX) in target/dist
	mkdir -p $(TARGET_DIR)/dist
	CARGO="$(CARGO)" python3 scripts/sbom.py >$(TARGET_DIR)/sbom.json
	mv $(TARGET_DIR)/sbom.json $(TARGET_DIR)/dist/wrkbench-$(VERSION).cdx.json

sums: ## write SHA256SUMS of everything in target/dist
	cd $(TARGET_DIR)/dist && rm -f SHA256SUMS && sha256sum * >../SHA256SUMS && mv ../SHA256SUMS .

packages-check: ## install Debian package and image and use them, check the SBOM; needs root
	sh scripts/check-deb.sh
	sh scripts/check-container.sh
	sh scripts/check-sbom.sh

clean: ## remove everything that was built
	$(CARGO) clean
	rm -f demo-result.json demo-result.html
	rm -rf fuzz/target

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## /make \1: /p' Makefile
