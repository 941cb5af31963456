"""Our broker serves directories that Kafka 4.1 left after a clean or unclean shutdown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from golden_sets import FLIGHTS, KRAFT_SETS, SCENARIOS, manifest
from served_records import served_entries
from server.harness import running_broker
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.partitions import live_partitions

METADATA = "__cluster_metadata"
QUIET = {
    "log_retention_ms": "-1",
    "log_cleaner_enable": "false",
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": str(2**31 - 1),
}
"""The settings leave the data unchanged, however old it is."""


@pytest.mark.parametrize("kind", ["clean", "unclean"])
@pytest.mark.parametrize("set_name", KRAFT_SETS)
def test_are_served(golden_copy: Callable[[str, str], Path], set_name: str, kind: str) -> None:
    directory = golden_copy(set_name, kind)
    before = json.loads((directory / f"{METADATA}-0" / "quorum-state").read_text())
    partitions = {(name, number) for name, number in live_partitions(LOCAL, directory) if name != METADATA}
    with running_broker(directory) as home:
        with home.client() as client:
            answer = client.call(ApiKey.METADATA, topics=None)
            found = {
                (topic.name, part.partition_index): (part.error_code, part.leader_id, tuple(part.isr_nodes))
                for topic in answer.topics
                for part in topic.partitions
            }
        assert found.keys() == partitions
        assert set(found.values()) == {(ErrorCode.NONE, 1, (1,))}
        assert not home.call(lambda: home.broker.logs.strays)
        assert home.call(lambda: home.broker.quorum_controller.quorum.epoch) == before["leaderEpoch"] + 1
    after = json.loads((directory / f"{METADATA}-0" / "quorum-state").read_text())
    assert after == {**before, "leaderEpoch": before["leaderEpoch"] + 1}
    assert (directory / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("set_name", [SCENARIOS, pytest.param(FLIGHTS, marks=pytest.mark.slow)])
def test_are_served_as_their_manifests_say(golden_copy: Callable[[str, str], Path], set_name: str) -> None:
    with running_broker(golden_copy(set_name, "clean"), **QUIET) as home:
        for isolation in ("read_uncommitted", "read_committed"):
            entries = {name: levels[isolation] for name, levels in manifest(set_name).items()}
            assert served_entries(home.bootstrap, entries, isolation=isolation) == entries
