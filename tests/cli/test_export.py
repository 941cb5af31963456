"""The command ``tidelog export``. The tests of ``inspect`` check the files that it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import tidelog.cli.export as export_module
from cli.runner import rows, run
from conftest import GoldenFactory
from golden_sets import FLIGHTS, SCENARIOS
from tidelog.inspect.export import ExportedPartition


@pytest.mark.parametrize("form", ["jsonl", "csv", "arrow", "parquet"])
def test_the_suffix_says_the_format(golden: GoldenFactory, tmp_path: Path, form: str) -> None:
    path = tmp_path / f"out.{form}"
    (row,) = rows("export", golden(FLIGHTS), "airports", "--output", path)
    assert (row["records"], row["file"], row["file_bytes"]) == (3304, str(path), path.stat().st_size)


def test_internal_topics_only_by_name(golden: GoldenFactory, tmp_path: Path) -> None:
    everything = rows("export", golden(FLIGHTS), "-o", tmp_path / "all", "--format", "parquet")
    assert not [row for row in everything if row["topic"].startswith("__")]
    assert len(list((tmp_path / "all").iterdir())) == len(everything)
    named = rows("export", golden(FLIGHTS), "__consumer_offsets", "-o", tmp_path / "groups", "--format", "parquet")
    assert {row["topic"] for row in named} == {"__consumer_offsets"}


def test_bounds_isolation_and_shape(golden: GoldenFactory, tmp_path: Path) -> None:
    path = tmp_path / "txn.jsonl"
    arguments = ["export", golden(SCENARIOS), "txn", "-o", path, "--isolation", "read_committed", "--start", "100"]
    (row,) = rows(*arguments, "--value-format", "base64", "--key-format", "none")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert row["records"] == len(lines)
    assert row["start"] == 100
    assert all("key" not in line for line in lines)
    assert "last stable offset" in run(*arguments, "--force").stdout


def test_a_file_that_is_there_is_kept(golden: GoldenFactory, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("precious")
    assert "--force" in run("export", golden(FLIGHTS), "airports", "-o", path, code=2).stderr
    assert path.read_text() == "precious"
    run("export", golden(FLIGHTS), "airports", "-o", path, "--force")
    assert path.read_text().startswith("topic,")


def test_damage_is_an_error_or_left_out(golden_copy: GoldenFactory, tmp_path: Path) -> None:
    directory = golden_copy(FLIGHTS)
    log = directory / "flights-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[20_000] ^= 1
    log.write_bytes(data)
    output = tmp_path / "out"
    found = rows("export", directory, "flights", "-o", output, "--format", "parquet", code=3)
    assert [row["error"] is None for row in found] == [False, True, True, True]
    assert not (output / "flights-0.parquet").exists()
    arguments = ["export", directory, "flights-0", "-o", tmp_path / "rest.parquet", "--on-corrupt", "skip"]
    (row,) = rows(*arguments, code=1)
    assert row["skipped_bytes"] > 0
    assert pq.read_table(tmp_path / "rest.parquet").num_rows == row["records"] < 6066
    assert "skipped bytes" in run(*arguments, "--force", code=1).stdout


def test_an_interruption_leaves_no_half_file(
    golden: GoldenFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_arguments: object, **_named: object) -> list[ExportedPartition]:
        raise KeyboardInterrupt

    monkeypatch.setattr(export_module, "export_partitions", interrupted)
    run("export", golden(FLIGHTS), "-o", tmp_path / "x.csv", code=130)
    assert not list(tmp_path.iterdir())


def test_a_directory_without_topics_makes_no_rows(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=4\n")
    assert rows("export", tmp_path / "disk", "-o", tmp_path / "out", "--format", "csv") == []
