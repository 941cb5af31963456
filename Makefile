# Every command makes what it needs; a stamp file stands for each finished step, so a second run is quick.
# `make help` lists the commands.

VENV := .venv
BIN := $(VENV)/bin
SPARK40 := .venv-spark40
PYTHON ?= $(shell scripts/prerequisites.sh --python)
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile
QUICK := "not slow and not kafka and not spark and not heavy"
JAR := src/tidelog/spark/jvm/tidelog-spark.jar
KERNEL_SOURCES := $(wildcard src/tidelog/kernel/*.pyx src/tidelog/kernel/*.pxd src/tidelog/kernel/*.c src/tidelog/kernel/*.h)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help prerequisites jvm browser everything venv kernels spark40 jar archive check test sim coverage test-pythons mutants mutation lint format map bench bench-steps bench-scaling demo demo-picture inspector-pictures golden-set golden-cluster golden-zookeeper soak lock clean

help: ## list the commands
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

prerequisites: ## check the machine for Python and a C compiler (as root on Debian: install them)
	@scripts/prerequisites.sh

jvm: prerequisites ## check the machine for a JDK and Maven too
	@scripts/prerequisites.sh --jvm

browser:
	@scripts/prerequisites.sh --browser

venv: $(VENV)/.kernels ## make .venv: locked packages, the project editable, kernels built in place

kernels: $(VENV)/.kernels ## compile the kernels again where their sources changed

$(VENV)/.packages: requirements/build.txt requirements/dev.txt | prerequisites
	@echo "Setting up $(VENV) from requirements/dev.txt"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(PIP_INSTALL) --require-hashes -r requirements/build.txt
	@$(BIN)/python $(PIP_INSTALL) --require-hashes --no-build-isolation -r requirements/dev.txt
	@touch $@

$(VENV)/.project: $(VENV)/.packages pyproject.toml setup.py src/tidelog/version.py
	@TIDELOG_WITHOUT_KERNELS=1 $(BIN)/python $(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.kernels: $(VENV)/.project $(KERNEL_SOURCES) | prerequisites
	@echo "Compiling the kernels"
	@$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

spark40: $(SPARK40)/.project ## make .venv-spark40: the oldest PySpark that is supported

$(SPARK40)/.packages: requirements/build.txt requirements/spark40.txt | prerequisites
	@echo "Setting up $(SPARK40) from requirements/spark40.txt"
	@test -x $(SPARK40)/bin/python || $(PYTHON) -m venv $(SPARK40)
	@$(SPARK40)/bin/python $(PIP_INSTALL) --require-hashes -r requirements/build.txt
	@$(SPARK40)/bin/python $(PIP_INSTALL) --require-hashes --no-build-isolation -r requirements/spark40.txt
	@touch $@

# The kernels that `make kernels` built in place serve this environment too: both have the same interpreter.
$(SPARK40)/.project: $(SPARK40)/.packages $(VENV)/.kernels pyproject.toml setup.py src/tidelog/version.py
	@TIDELOG_WITHOUT_KERNELS=1 $(SPARK40)/bin/python $(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

jar: $(JAR) ## compile the jar of Spark's JVM reader, with the oldest PySpark that is supported

$(JAR): $(wildcard src/jvm/tidelog/spark/*.java) scripts/spark_jar.py | $(SPARK40)/.packages jvm
	@$(SPARK40)/bin/python scripts/spark_jar.py

archive: venv ## make dist/tidelog.tar.gz, for the executors of a Spark cluster (WITH="s3fs": more libraries)
	@$(BIN)/python scripts/archive.py $(WITH)

include tests/real_kafka/jars.mk

check: venv ## the quick tests: no JVM, no Maven, a few minutes
	@$(BIN)/python -m pytest -m $(QUICK) -n auto --maxprocesses 4 --dist loadfile

everything: ## the environments and jars of the tests
	@+$(MAKE) --silent --no-print-directory browser
	@+$(MAKE) --silent --no-print-directory --jobs=2 venv spark40 jar kafka-jars kafka-3-jars spark-kafka-jars lake-jars s3a-jars

test: everything ## every test but the slow ones; with more workers than cores, since many tests wait for a JVM
	@# Each worker would compile all tests by itself. Their errors are the next command's.
	@ls -d tests/*/ | xargs -P $$(nproc) -n 4 $(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1 || true
	@$(BIN)/python -m pytest -n $$(( $$(nproc) * 5 / 2 )) --maxprocesses 5 --dist loadfile --no-loadscope-reorder

soak: everything ## the slow tests (the long fuzz and crash runs), and the mutants
	@status=0; \
	$(BIN)/python -m pytest -m slow -n auto --maxprocesses 4 --dist worksteal || status=1; \
	$(BIN)/python scripts/mutants.py || status=1; \
	exit $$status

sim: venv ## simulate replication under failures (SEEDS=1000, SEEDS=17..17 tells a story, FAULT=list, WHOLE=1: not shrunk)
	@PYTHONPATH=tests $(BIN)/python -m simulation $(if $(SEEDS),--seeds $(SEEDS)) $(if $(FAULT),--fault $(FAULT)) $(if $(EVENTS),--events $(EVENTS)) $(if $(WHOLE),--whole)

mutants: venv ## break one rule at a time, and show the test that fails (NAMES="a b": some mutants)
	@$(BIN)/python scripts/mutants.py $(NAMES)

coverage: venv ## measure the branches that the quick tests execute, and compare with the bound in pyproject.toml
	@mkdir -p .cache/coverage && $(BIN)/python -m coverage erase
	@$(BIN)/python -m coverage run -m pytest -m $(QUICK) -n auto --maxprocesses 4 --dist loadfile
	@$(BIN)/python -m coverage combine --quiet && $(BIN)/python -m coverage report

test-pythons: venv ## run the quick tests on each supported interpreter that the machine has (VERSIONS="3.12 3.13")
	@scripts/test_pythons.sh $(VERSIONS)

mutation: venv ## break the code at random, and count how much the tests find (SEED=7 ROOMS=record COUNT=50 ARGS=--again)
	@$(BIN)/python scripts/mutation.py $(if $(SEED),--seed $(SEED)) $(if $(ROOMS),--rooms $(ROOMS)) $(if $(COUNT),--count $(COUNT)) $(ARGS)

lint: venv ## ruff, mypy and the rooms
	@status=0; for check in "ruff check ." "ruff format --check ." mypy "mypy --config-file tests/mypy.toml" "lint-imports --no-cache"; do \
	    $(BIN)/$$check || status=1; done; exit $$status

format: venv ## put the code in order as lint wants it
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

map: venv ## write what is made from code: the file map, pages of docs/, and the stubs of messages
	@$(BIN)/python scripts/file_map.py
	@$(BIN)/python scripts/command_page.py
	@$(BIN)/python scripts/configuration_page.py
	@$(BIN)/python scripts/metric_page.py
	@$(BIN)/python scripts/api_page.py
	@$(BIN)/python scripts/message_types.py
	@PYTHONPATH=tests $(BIN)/python -m simulation.page

bench: everything mirror-maker-jars ## measure beside Kafka (ROWS=scan,decode: some rows)
	@PYTHONPATH=tests $(BIN)/python -m benchmarks $(if $(ROWS),--rows $(ROWS)) $(if $(SCALE),--scale $(SCALE))

bench-steps: venv kafka-jars ## where the time goes in the rows below their target
	@PYTHONPATH=tests $(BIN)/python -m benchmarks.steps

bench-scaling: venv ## what a read by Spark costs as data and cores grow: 1, 4 and 10 GB, written and deleted
	@PYTHONPATH=tests $(BIN)/python -m benchmarks.scaling

demo: venv jvm ## a broker at work, queried while it runs; a cluster under kills; a killed broker's directory, recovered, queried
	@$(BIN)/python examples/flights/pipeline.py

demo-picture: venv ## write docs/demo.svg, the picture of the demo in the README
	@$(BIN)/python examples/flights/pipeline.py --without-cluster --without-spark --picture docs/demo.svg

inspector-pictures: venv ## make the pictures of docs/inspector.md again; Chromium is needed
	@PYTHONPATH=tests $(BIN)/python scripts/inspector_pictures.py

golden-set: venv kafka-jars ## write a golden set of tests/golden anew (RELEASE=4.4.0): the directory that a release leaves
	@PYTHONPATH=tests $(BIN)/python scripts/golden_set.py $(RELEASE)

golden-cluster: venv kafka-jars ## write the golden set of three brokers anew
	@PYTHONPATH=tests $(BIN)/python scripts/golden_cluster.py

golden-zookeeper: venv kafka-3-jars ## write the golden set of a broker with ZooKeeper anew
	@PYTHONPATH=tests $(BIN)/python scripts/golden_zookeeper.py

LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --custom-compile-command "make lock"

lock: venv ## write the lock files again, with the newest versions
	@$(LOCK) --upgrade requirements/build.in -o requirements/build.txt
	@$(LOCK) --upgrade pyproject.toml requirements/build.txt --extra spark --extra demo --extra dev -o requirements/dev.txt
	@$(LOCK) --upgrade pyproject.toml requirements/build.txt requirements/spark40.in --extra spark --extra dev -o requirements/spark40.txt

clean: ## remove everything that the commands made
	rm -rf $(VENV) $(SPARK40) .venv-pythons .cache build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src -name '*.so' -delete
	find src tests -name __pycache__ -prune -exec rm -rf {} +
