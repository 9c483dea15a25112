# What people do with this repository, by name. Needs Rust 1.95 and a C compiler (LuaJIT and the
# TLS library are built from source that cargo fetches).

CARGO ?= cargo
PREFIX ?= /usr/local
DESTDIR ?=
# Names under which `make install` links the binary: `make install LINKS="wrk wrk2 wrk-cmm"`.
LINKS ?=
BENCH_ARGS ?=
TRUTH_ARGS ?=
FUZZ_SECONDS ?= 60

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
WRKBENCH := $(TARGET_DIR)/release/wrkbench

BIN_DIR := $(DESTDIR)$(PREFIX)/bin
MAN_DIR := $(DESTDIR)$(PREFIX)/share/man/man1
DOC_DIR := $(DESTDIR)$(PREFIX)/share/doc/wrkbench
INSTALLED_FOLDERS := docs docs/pictures docs/data/buffertest docs/decisions examples/scripts examples/experiments
BASH_DIR := $(DESTDIR)$(PREFIX)/share/bash-completion/completions
ZSH_DIR := $(DESTDIR)$(PREFIX)/share/zsh/site-functions
FISH_DIR := $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d

# Tests send signals. Who was started by nohup, or with & by a script, ignores some of them, and so do all that it starts:
# GNU's env takes that back.
HEED := $(shell env --default-signal=HUP true 2>/dev/null && echo env --default-signal=HUP,INT,QUIT)

.PHONY: build demo test test-browser test-packages readers test-readers faults kill bench truth telemetry-cost statistics fuzz check install uninstall pictures clean help

build: ## build the release binary (the default)
	$(CARGO) build --release --locked -p wrkbench

demo: build ## start the built-in server, load it for 5 s, print the report, write demo-result.json
	$(WRKBENCH) demo

test: test-packages readers ## run every test; the end-to-end tests a second time on epoll
	$(HEED) $(CARGO) test --workspace --locked
	WRKBENCH_TEST_IO=epoll $(HEED) $(CARGO) test -p wrkbench --locked
	CARGO="$(CARGO)" sh scripts/test-browser.sh

test-browser: test-packages ## open report pages in a headless Chromium; pictures go to target/screenshots
	CARGO="$(CARGO)" sh scripts/test-browser.sh

test-packages: ## install the Debian packages that the tests need; does nothing when they are there
	sh scripts/install-test-packages.sh

readers: ## install the readers that formats are held against, below target/; never fails
	sh scripts/install-readers.sh

test-readers: readers ## hold every format against the readers of others
	$(CARGO) test -p report --test readers --locked

faults: test-packages ## try everything that can go wrong on each backend, print the tables; WRKBENCH_FAULTS=F9,F12 picks rows
	$(HEED) $(CARGO) test -p wrkbench --test faults --locked -- --ignored --nocapture
	WRKBENCH_TEST_IO=epoll $(HEED) $(CARGO) test -p wrkbench --test faults --locked -- --ignored --nocapture

kill: test-packages ## kill sweeps at fifty random moments and compare the machine with before; needs root
	$(HEED) $(CARGO) test -p wrkbench --test kill --locked -- --ignored --nocapture

bench: build ## measure against wrk and print the table of figures; BENCH_ARGS="--help" lists options
	$(CARGO) build --release --locked -p bench
	$(TARGET_DIR)/release/bench $(BENCH_ARGS)

truth: build ## hold the numbers against what the server knows; TRUTH_ARGS="--help" lists options
	$(CARGO) build --release --locked -p bench
	$(TARGET_DIR)/release/truth $(TRUTH_ARGS)

pictures: build ## make the pictures of README.md from real runs; needs tmux, node and Chromium
	sh scripts/pictures.sh

telemetry-cost: ## measure the CPU time of watching 300 sockets once a second
	$(CARGO) run --release --locked -p telemetry --example sampler_cost

statistics: ## try the statistics on samples whose truth is known and print the tables; ten minutes
	$(CARGO) test --release --locked -p stats --test simulation -- --ignored --nocapture --test-threads 1

fuzz: ## run each fuzz target for FUZZ_SECONDS seconds; needs cargo-fuzz
	@command -v cargo-fuzz >/dev/null || { \
	    echo "make fuzz: cargo-fuzz is missing; install it with: cargo install cargo-fuzz" >&2; exit 1; }
	@set -e; for path in fuzz/fuzz_targets/*.rs; do \
	    name=$$(basename "$$path" .rs); \
	    echo "== $$name, $(FUZZ_SECONDS) s"; \
	    RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run "$$name" -- -max_total_time=$(FUZZ_SECONDS); \
	done

check: ## format and lints, no test
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

install: ## install binary, man page, completions, documents and examples below PREFIX; run `make` first
	@test -x $(WRKBENCH) || { echo "make install: $(WRKBENCH) is not built; run make first" >&2; exit 1; }
	install -d $(BIN_DIR) $(MAN_DIR) $(DOC_DIR) $(BASH_DIR) $(ZSH_DIR) $(FISH_DIR)
	install -m 755 $(WRKBENCH) $(BIN_DIR)/wrkbench
	$(WRKBENCH) man > $(MAN_DIR)/wrkbench.1
	$(WRKBENCH) completions bash > $(BASH_DIR)/wrkbench
	$(WRKBENCH) completions zsh > $(ZSH_DIR)/_wrkbench
	$(WRKBENCH) completions fish > $(FISH_DIR)/wrkbench.fish
	install -m 644 README.md CHANGELOG.md ARCHITECTURE.md CONTRIBUTING.md LICENSE-APACHE LICENSE-MIT $(DOC_DIR)
	@# In the folders of the repository, since documents name each other, pictures, data and examples by them.
	@for folder in $(INSTALLED_FOLDERS); do \
	    install -d $(DOC_DIR)/$$folder && \
	    find $$folder -maxdepth 1 -type f -exec install -m 644 -t $(DOC_DIR)/$$folder {} + || exit 1; done
	@for name in $(LINKS); do ln -sf wrkbench "$(BIN_DIR)/$$name" && echo "linked $(BIN_DIR)/$$name"; done

uninstall: ## remove what install put there, links to it included
	@for path in $(BIN_DIR)/*; do \
	    if [ "$$(readlink "$$path")" = wrkbench ]; then rm -f "$$path"; fi; done
	rm -f $(BIN_DIR)/wrkbench $(MAN_DIR)/wrkbench.1
	rm -f $(BASH_DIR)/wrkbench $(ZSH_DIR)/_wrkbench $(FISH_DIR)/wrkbench.fish
	rm -rf $(DOC_DIR)

clean: ## remove everything that was built
	$(CARGO) clean
	rm -f demo-result.json
	rm -rf fuzz/target

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## /make \1: /p' Makefile
