"""``tidelog mirror``: the plan, the report, JSON lines and exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.runner import rows, run
from mirroring.source_and_copy import KEEPING, produce
from tidelog.cli.byte_size import BYTE_SIZE
from tidelog.testing import Broker


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "source", configs=KEEPING) as broker:
        broker.create_topic("orders", 2)
        produce(broker, "orders", [b"a", b"b"])
        yield broker


def test_the_plan_and_the_report(source: Broker, tmp_path: Path) -> None:
    own = ("mirror", "--from", source.bootstrap_servers, "--no-groups", "--min-free", "0", tmp_path / "copy")
    plan = rows(*own)
    assert [(row["name"], row["state"], row["missing_records"]) for row in plan] == [
        ("orders-0", "new", 2),
        ("orders-1", "new", 0),
    ]
    printed = run(*own).stdout
    assert "Nothing was written. Use --apply to copy." in printed
    assert "The ACLs cannot be read: No Authorizer is configured on the broker." in printed
    assert not (tmp_path / "copy").exists()
    done = run(*own, "--apply").stdout
    assert "2 of 2 partitions are complete" in done
    assert [row["log_end"] for row in rows(*own, "--apply")] == [2, 0]
    assert {row["severity"] for row in rows("verify", tmp_path / "copy")} <= {None, "note"}
    assert rows("recover", tmp_path / "copy")


def test_json_lines_have_progress_and_partitions(source: Broker, tmp_path: Path) -> None:
    own = ("mirror", "--from", source.bootstrap_servers, "--no-groups", "--min-free", "0", tmp_path / "copy")
    lines = [json.loads(line) for line in run(*own, "--apply", "--jsonl").stdout.splitlines()]
    kinds = [line["kind"] for line in lines]
    assert kinds[-3:] == ["partition", "partition", "note"]
    assert set(kinds[:-3]) == {"progress"}
    assert lines[len(kinds) - 4]["copied_records"] == 2


def test_a_pattern_without_topics_is_a_finding(source: Broker, tmp_path: Path) -> None:
    source.create_topic("__consumer_offsets")
    own = ("mirror", "--from", source.bootstrap_servers, "--topics", "order", "--min-free", "0", tmp_path / "copy")
    message = "No topic of the source that this client may describe matches --topics 'order'."
    assert message in run(*own).stdout
    for output in ((), ("--jsonl",)):
        done = run(*own, "--apply", *output, code=1)
        assert message in done.stdout


def test_refusals_end_with_3(source: Broker, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    done = run("mirror", "--from", source.bootstrap_servers, tmp_path / "full", code=3)
    assert "not a copy of a mirror" in done.stderr
    limit = ("--min-free", "1000TiB", "--apply")
    done = run("mirror", "--from", source.bootstrap_servers, tmp_path / "copy", *limit, code=3)
    assert "would leave less than --min-free" in done.stderr
    run("mirror", "--from", "localhost", tmp_path / "copy", code=2)


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("17", 17), ("50MB", 50_000_000), ("1GiB", 1 << 30), ("1.5k", 1500), ("2 TiB", 2 << 40)],
)
def test_sizes(text: str, size: int) -> None:
    assert BYTE_SIZE.convert(text, None, None) == size


def test_a_size_that_is_none_is_a_usage_error(tmp_path: Path) -> None:
    done = run("mirror", "--from", "localhost:1", "--max-rate", "fast", tmp_path, code=2)
    assert "'fast' is not a size" in done.stderr
