# Chores. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
CACHE := .cache
VENV := $(CACHE)/venv
# What `cassette version` shows.
export CASSETTE_COMMIT := $(shell git describe --always --dirty --abbrev=12 2>/dev/null)

.PHONY: help
help: ## list the chores
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

.PHONY: demo
demo: ## build, start the database, run a small benchmark on it
	cargo build --release --package cassette-cli
	target/release/cassette demo

.PHONY: build
build: ## build the release binary: target/release/cassette
	cargo build --release --package cassette-cli

.PHONY: dist
dist: build ## a stripped target/dist/cassette, and its debug information beside it
	mkdir -p target/dist
	objcopy --only-keep-debug target/release/cassette target/dist/cassette.debug
	objcopy --strip-all --add-gnu-debuglink=target/dist/cassette.debug target/release/cassette target/dist/cassette
	ls -l target/dist

.PHONY: archive
archive: dist ## a release archive with completions, manual pages, checksum and bill of materials, in target/dist
	packaging/build/archive.py target/dist/cassette target/dist

.PHONY: deb
deb: dist ## a package for Debian and Ubuntu, in target/dist
	packaging/build/deb.py target/dist/cassette target/dist

.PHONY: image
image: dist ## a container image as an archive of an OCI layout, in target/dist
	packaging/build/image.py target/dist/cassette target/dist

.PHONY: library
library: ## libcassette for C, shared and static, with its header, as an archive in target/dist
	cargo rustc --release --package cassette-c --crate-type cdylib
	cargo rustc --release --package cassette-c --crate-type staticlib
	mkdir -p target/dist
	objcopy --strip-all target/release/libcassette_c.so target/dist/libcassette.so
	objcopy --strip-debug target/release/libcassette_c.a target/dist/libcassette.a
	packaging/build/library.py target/dist target/dist/libcassette.so target/dist/libcassette.a

.PHONY: kits
kits: dist ## the packages of the test kits with the binary, in target/dist: a wheel with the embedded database, a package for npm, jars
	cargo rustc --release --package cassette-python --crate-type cdylib
	objcopy --strip-all target/release/libcassette_python.so target/dist/libcassette_python.so
	CASSETTE_BINARY=$(abspath target/dist/cassette) CASSETTE_MODULE=$(abspath target/dist/libcassette_python.so) \
		python3 -m pip wheel --quiet --no-deps --wheel-dir target/dist kits/python
	node kits/node/scripts/pack.js target/dist/cassette target/dist
	kits/jvm/pack.sh target/dist/cassette target/dist

.PHONY: build-peers
build-peers: ## build it with LevelDB, RocksDB and fjall to measure (libleveldb-dev, libclang; RocksDB takes long)
	cargo build --release --package cassette-cli --features leveldb,rocksdb,fjall

.PHONY: test
test: test-rust test-clients ## everything that must pass

.PHONY: test-rust
test-rust: ## unit, property, crash and oracle tests
	cargo test --workspace --no-fail-fast

# It builds the binary and the module for Python as test-rust does: building one package selects other features, and would compile our crates again.
.PHONY: test-clients
test-clients: $(VENV)/installed ## unmodified drivers and cqlsh against the built server
	cargo test --workspace --no-run --test stopping --test interpreter
	$(VENV)/bin/python -m pytest -q tests/clients

$(VENV)/installed: tests/clients/requirements.txt
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --requirement $<
	touch $@

.PHONY: simulate
simulate: ## whole nodes on a fake disk and clock, held against a model (SEEDS, FROM, OPERATIONS, THREADS)
	cargo run --release --package cassette-simulation -- \
		--seeds $${SEEDS:-1000} --from $${FROM:-0} --operations $${OPERATIONS:-120} --threads $${THREADS:-2}

.PHONY: soak-kill
soak-kill: ## kill -9 the server 200 times under load; CASSETTE_KILL_SEED repeats a run
	CASSETTE_KILL_ROUNDS=200 cargo test --package cassette-cli --test kill -- --nocapture

.PHONY: soak-backup
soak-backup: ## restore SEEDS (1000) random histories with crashes to random moments; CASSETTE_BACKUP_SEED is the first
	CASSETTE_BACKUP_SEEDS=$(or $(SEEDS),1000) cargo test --package cassette-backup --test point_in_time exactly -- --nocapture

.PHONY: soak-backup-crashes
soak-backup-crashes: ## crash within random operations of backups, archiving and restores, SEEDS (1000) histories; CASSETTE_BACKUP_SEED is the first
	CASSETTE_BACKUP_CRASHES=$(or $(SEEDS),1000) cargo test --package cassette-backup --test point_in_time within -- --nocapture

.PHONY: soak-adopt
soak-adopt: ## adopt nodes of Cassandra with TABLES (30) tables of random schemas for each of SEEDS ("6 7 8")
	for seed in $(or $(SEEDS),6 7 8); do \
		CASSETTE_REQUIRE_ORACLE=1 CASSETTE_ADOPT_SEED=$$seed CASSETTE_ADOPT_TABLES=$(or $(TABLES),30) \
			cargo test --package cassette-adopt --test all oracle -- --nocapture || exit 1; \
	done

.PHONY: fuzz
fuzz: ## fuzz TARGET, or every target in turn, with libFuzzer for SECONDS each (60); findings go to target/fuzz/findings
	crates/fuzz/fuzz.sh $(or $(SECONDS),60) $(TARGET)

.PHONY: soak-linearizability
soak-linearizability: ## check concurrent histories of conditional writes and counters, also across kill -9 (ROUNDS, KILLS)
	CASSETTE_LINEARIZABILITY_ROUNDS=$(or $(ROUNDS),20000) CASSETTE_LINEARIZABILITY_KILLS=$(or $(KILLS),200) \
		cargo test --package cassette-cli --test linearizability -- --nocapture

.PHONY: soak-transactions
soak-transactions: ## transactions on three Cassandra nodes, two of them killed and started again in mid-run (SECONDS_OF_RUN)
	CASSETTE_REQUIRE_ORACLE=1 CASSETTE_SOAK_NODES=3 CASSETTE_SOAK_SECONDS=$${SECONDS_OF_RUN:-90} \
		cargo test --package cassette-cli --test timelock on_cassandra -- --nocapture

.PHONY: soak-move
soak-move: ## a move by files to three Cassandra nodes; the mover and a node are killed in mid-transfer (MB)
	CASSETTE_REQUIRE_ORACLE=1 CASSETTE_SOAK_NODES=3 CASSETTE_SOAK_MB=$${MB:-60} \
		cargo test --package cassette-cli --test moving_files -- --nocapture

.PHONY: abuse
abuse: build $(VENV)/installed ## one abusive client against all others: latency of the others, memory, end on SIGTERM (CASES)
	$(VENV)/bin/python tests/abuse/run.py $(CASES)

.PHONY: bench-guard
bench-guard: ## fail if an operation executes over 3 % more instructions than recorded; needs valgrind (CASES)
	cargo run --release --package cassette-guard -- check $(CASES)

.PHONY: bench-guard-update
bench-guard-update: ## record the instructions of operations in crates/guard/counts.txt (CASES)
	cargo run --release --package cassette-guard -- update $(CASES)

.PHONY: bench-cassandra
bench-cassandra: build ## YCSB on Cassette and on Apache Cassandra (RECORDS, OPERATIONS, SCANS, ROUNDS)
	benches/cassandra_comparison.sh

.PHONY: bench-null-server
bench-null-server: ## YCSB on Cassette and on a server that does nothing (ROUNDS, RECORDS, OPERATIONS)
	cargo build --release --package cassette-cli --package cassette-lab --bin cassette --example null_server
	benches/null_server.py target/release/cassette target/release/examples/null_server \
		--rounds $(or $(ROUNDS),3) --records $(or $(RECORDS),1000000) --operations $(or $(OPERATIONS),500000)

.PHONY: clients
clients: build ## integration suites of gocql and of the Python driver on Cassette and on Apache Cassandra (SUITES, PYTHON_DRIVER)
	tests/suites/run.py $(SUITES)

.PHONY: bench-beside-cassandra
bench-beside-cassandra: build $(VENV)/installed ## flushes, compactions, reads by index on Cassette and on Apache Cassandra (ROUNDS, ROWS, MEASURES; ARGUMENTS=--quick)
	$(VENV)/bin/python benches/storage_beside_cassandra.py $(ARGUMENTS)

.PHONY: bench-move
bench-move: build $(VENV)/installed ## moves to Cassandra by files, by import, in bulk and by rows, beside sstableloader, COPY and DSBulk (GB, CSV_GB, NODES, ROUNDS, METHODS, VERIFY, COLD)
	$(VENV)/bin/python benches/move.py

.PHONY: bench-shell
bench-shell: build $(VENV)/installed ## COPY of the shell beside cqlsh's, both ways (ROWS, ROUNDS)
	$(VENV)/bin/python benches/shell_copy.py target/release/cassette $(VENV)/bin/cqlsh $(ROWS) $(ROUNDS)

.PHONY: bench-client
bench-client: build ## cost of a request in the clients of cassette lab and YCSB, against one Apache Cassandra (RECORDS, SHORT, LONG, ROUNDS)
	benches/client_cost.sh

.PHONY: bench-laboratory
bench-laboratory: ## latency added by cassette lab (ROUNDS, OPERATIONS)
	cargo bench --package cassette-lab --bench own_latency

.PHONY: bench-same-twice
bench-same-twice: build ## verdicts of cassette lab where the truth is known: the same twice, and a tenth more (RUNS, REPEATS, FOUND_RUNS)
	benches/same_twice.py

.PHONY: bench-two-builds
bench-two-builds: build ## YCSB on two builds in turns, embedded and served (BEFORE=binary AFTER=binary ROUNDS)
	target/release/cassette lab ab $(BEFORE) $(AFTER) --rounds $(or $(ROUNDS),5)

.PHONY: bench-embedded
bench-embedded: ## YCSB on the embedded engine and on LevelDB, RocksDB and fjall (RECORDS, OPERATIONS, SCANS, ROUNDS, ENGINES)
	cargo build --release --package cassette-cli --features leveldb,rocksdb,fjall
	benches/embedded_comparison.sh

.PHONY: bench-larger-than-memory
bench-larger-than-memory: ## YCSB within a limit of memory that the data exceeds, RocksDB beside if built (RECORDS, LIMIT_MB, CACHE_MB, ROUNDS, ENGINES)
	test -x $${CASSETTE_BINARY:-target/release/cassette} || cargo build --release --package cassette-cli
	benches/larger_than_memory.py

.PHONY: soak-memory
soak-memory: ## load 5 GB with small memtables and caches; memory, files and threads must stay
	CASSETTE_MEMORY_MB=5000 cargo test --release --package cassette-cli --test memory -- --nocapture

.PHONY: bench-indexes
bench-indexes: ## what six secondary indexes cost writes, and reads by index beside those by key
	cargo bench --package cassette-database --bench indexes

.PHONY: bench-transactions
bench-transactions: ## transactions on the embedded store: commits, reads, bytes of a commit record
	cargo bench --package cassette-transactions --bench transactions

.PHONY: bench-commits
bench-commits: ## commits per second and their latency by store, commit log sync and threads (ARGUMENTS)
	cargo bench --package cassette-transactions --bench commit_latency -- $(ARGUMENTS)

.PHONY: bench-startup
bench-startup: ## how soon the server is ready on an empty directory, and its memory then
	cargo bench --package cassette-cli --bench startup

.PHONY: bench-kits
bench-kits: build ## how soon the test kits have a server, and the first query (ROUNDS)
	benches/kits.py target/release/cassette --rounds $(or $(ROUNDS),20)

.PHONY: bench-compaction
bench-compaction: ## flushes and compaction: MB/s of a core, overlapping SSTables, amplification under levels (MIB, ROWS)
	cargo bench --package cassette-engine --bench compaction

.PHONY: bench-amplification
bench-amplification: ## random overwrites under levels: bytes written and kept, RocksDB beside (SIZE_MB, TIMES, RATE, ROUNDS, ENGINES)
	cargo build --release --package cassette-cli --features rocksdb
	benches/leveled_amplification.sh

.PHONY: bench-caches
bench-caches: build ## what the row, file and counter caches gain (SCALE, RECORDS, OPERATIONS, ROUNDS)
	benches/caches.sh

.PHONY: lint
lint: typos ## formatting, lints and spelling, warnings denied
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- --deny warnings

.PHONY: typos
typos: $(CACHE)/typos/bin/typos ## spelling of code and documentation
	$<

$(CACHE)/typos/bin/typos:
	python3 -m venv $(CACHE)/typos
	$(CACHE)/typos/bin/pip install --quiet typos==1.52.0

.PHONY: lint-monitoring
lint-monitoring: ## check alerts and dashboard with the parsers of Prometheus, which Go fetches (METRICS=http://127.0.0.1:7199/metrics)
	cd tests/monitoring && go run . $(addprefix ../../packaging/monitoring/,prometheus-alerts.yml grafana-dashboard.json) $(METRICS)

.PHONY: package
package: ## assemble every package as for a registry, without compiling it
	cargo package --workspace --exclude cassette-fuzz --exclude cassette-guard --exclude cassette-python --exclude cassette-simulation --no-verify --allow-dirty --quiet

.PHONY: fmt
fmt: ## format the code
	cargo fmt --all
