"""The pages of exact counts, compared with Kafka's own numbers."""

from __future__ import annotations

import pytest

from conftest import GoldenFactory
from golden_sets import CLUSTER, SCENARIOS, UNCLEAN_ELECTION, manifest
from web.harness import check_picture, facts_of, read_page, rows_of, section_of


@pytest.mark.parametrize("partition", ["txn-0", "compacted-0", "plain-0", "trimmed-0"])
def test_counts_of_a_log_are_those_of_a_consumer(golden: GoldenFactory, partition: str) -> None:
    page = read_page(golden(SCENARIOS), f"/logs/0/{partition}/count")
    facts, expected = facts_of(page), manifest(SCENARIOS)[partition]
    assert facts["records"] == expected["read_uncommitted"]["count"]
    assert facts["committed"] == expected["read_committed"]["count"]
    parts = {row["part"]: row["offsets"] for row in rows_of(page, "parts")}
    assert sum(parts.values()) == facts["offset_range"] == facts["log_end"] - facts["log_start"]
    check_picture(section_of(page, "parts"))


def test_all_logs_are_counted_on_demand(golden: GoldenFactory) -> None:
    path = golden(SCENARIOS)
    assert not read_page(path, "/count").sections
    page = read_page(path, "/count?run=1&logs.size=1000")
    counts = {row["log"]: row["records"] for row in rows_of(page, "logs")}
    known = {name: levels["read_uncommitted"]["count"] for name, levels in manifest(SCENARIOS).items()}
    assert counts | known == counts
    assert facts_of(page)["records"] == sum(counts.values())


def test_the_sums_have_each_partition_once(golden: GoldenFactory) -> None:
    brokers = golden(CLUSTER, UNCLEAN_ELECTION)
    page = read_page([brokers / "broker1", brokers / "broker2", brokers / "broker3"], "/count?run=1&logs.size=1000")
    rows = rows_of(page, "logs")
    longest: dict[str, tuple[int, int]] = {}
    for row in rows:
        of_log = facts_of(read_page(brokers / f"broker{int(row['log_dir']) + 1}", f"/logs/0/{row['log']}/count"))
        longest[row["log"]] = max(longest.get(row["log"], (-1, 0)), (of_log["log_end"], row["records"]))
    assert facts_of(page)["records"] == sum(records for _, records in longest.values())
    assert len(rows) > len(longest)
