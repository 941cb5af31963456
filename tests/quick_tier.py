"""The tests that ``make check`` leaves out, in addition to those of a JVM. ``make test`` runs them.

A test that needs Kafka or Spark has its own marker. This list is for tests that are slow without them: they start
processes, build a wheel, or walk a complete golden directory.
"""

from __future__ import annotations

import pytest

HEAVY = (
    "tests/api/test_manifest.py",
    "tests/api/test_transaction_machine.py",
    "tests/cli/test_recover.py",
    "tests/inspect/compare/test_damage.py",
    "tests/inspect/test_dump_json.py",
    "tests/inspect/test_export.py",
    "tests/inspect/test_flips.py",
    "tests/inspect/test_verify.py",
    "tests/mirroring/test_kill.py",
    "tests/project/test_demo.py",
    "tests/project/test_mutation.py",
    "tests/project/test_package.py",
    "tests/server/clients/",
    "tests/server/cluster/test_processes.py",
    "tests/server/metadata/test_kafka_directories.py",
    "tests/server/test_memory.py",
    "tests/server/topics/test_kills_after_creation.py",
    "tests/server/transactions/test_clients.py",
    "tests/server/transactions/test_kill.py",
    "tests/simulation/test_faults.py",
    "tests/simulation/test_seeds.py::test_more_seeds_break_no_invariant",
    "tests/spark/test_splitting.py",
    "tests/spark/write_kills/",
    "tests/storage/fs/test_objects.py",
    "tests/storage/index/test_golden_indexes.py",
    "tests/storage/log/test_view_fuzz.py",
    "tests/storage/log/test_view_live.py::test_beside_a_process_that_does_all_of_it",
    "tests/storage/manager/compact/",
    "tests/storage/manager/snapshot/test_snapshot_golden.py",
    "tests/storage/manager/test_recover.py::test_a_killed_directory_becomes_what_its_broker_made_of_it",
    "tests/storage/manager/test_recover_golden.py",
    "tests/web/test_chromium.py",
    "tests/web/test_serve_web.py",
    "tests/web/test_walk.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(HEAVY):
            item.add_marker(pytest.mark.heavy)
