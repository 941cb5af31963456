"""docs/compare.md: the example is the output of the command, on directories that real brokers wrote."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cli.runner import rows, run
from conftest import GoldenFactory
from golden_sets import CLUSTER, UNCLEAN_ELECTION
from spark.in_process import rows as spark_rows
from tidelog.inspect.compare import ReplicaState

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "compare.md").read_text()
BROKERS = ("broker1", "broker2", "broker3")


@pytest.fixture
def root(golden: GoldenFactory) -> Path:
    return golden(CLUSTER, UNCLEAN_ELECTION)


def test_the_example_is_the_output(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(r"^```text\n\$ tidelog (.+?)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    command, shown = example
    monkeypatch.chdir(root)
    assert run(*command.split(), code=1).stdout == shown


def test_the_states_are_those_of_the_code() -> None:
    table = PAGE.partition("## States\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(.+?)` \|", table, flags=re.MULTILINE) == [state.value for state in ReplicaState]


def test_every_partition_of_the_real_brokers(root: Path) -> None:
    """The directories hold a loss of 30 records and nothing else that is wrong."""
    found = rows("compare", *(root / name for name in BROKERS), code=1)
    wrong = {(row["topic"], row["node_id"]) for row in found if row["problems"]}
    assert wrong == {("lossy", 2)}
    (lost,) = [row for row in found if row["problems"]]
    assert (lost["truncated_to"], lost["truncated_records"], lost["state"]) == (40, 30, "diverged")
    assert {row["compacted"] for row in found if row["topic"] == "compacted"} == {True}
    assert {row["state"] for row in found if row["topic"] == "compacted"} == {"reference", "equal"}


def test_records_are_read_once(root: Path) -> None:
    """The new leader's replica of ``lossy`` is shorter than the old leader's."""
    paths = [root / name for name in BROKERS]
    counted = {row["topic"]: row["records"] for row in rows("count", *paths, "lossy", "plain-0")}
    assert counted == {"lossy": 50, "plain": 1100}
    read = spark_rows(",".join(map(str, paths)), subscribe="lossy", until="log_end")
    assert len(read) == 50
    assert sum(row["value"].startswith(b"later") for row in read) == 10
