"""Exported files: the manifest's records in every format. Writes are atomic and never replace a file unasked."""

from __future__ import annotations

import csv
import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conftest import GoldenFactory
from golden_sets import FORMATS, SCENARIOS, SETS, manifest
from record_lines import manifest_entry
from tidelog.inspect.bounds import ReadLimits, parse_bound
from tidelog.inspect.export import ExportedPartition, ExportOptions, export_partitions
from tidelog.inspect.export_files import ExportFormat
from tidelog.inspect.record_rows import BytesFormat, RowShape
from tidelog.model import (
    CancelledError,
    ConfigError,
    CorruptRecordError,
    Header,
    Isolation,
    Record,
    StorageError,
    TimestampType,
    TopicPartition,
)
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.row_stream import CorruptPolicy

HEX = RowShape(key_format=BytesFormat.HEX, value_format=BytesFormat.HEX)
TYPES = {member.name.lower(): member for member in TimestampType}


def export(directory: Path, names: list[str], output: Path, form: str, **options: Any) -> list[ExportedPartition]:
    partitions = [TopicPartition.from_directory_name(name) for name in names]
    chosen = ExportOptions(output=output, format=ExportFormat(form), **options)
    return export_partitions(LOCAL, [(directory, partitions)], chosen)


def records_of(path: Path) -> Iterator[tuple[str, Record]]:
    """Yield (partition, record) of each row. Text files were written with HEX."""
    match path.suffix:
        case ".arrow":
            with pa.OSFile(str(path)) as file:
                yield from map(binary_row, pa.ipc.open_file(file).read_all().to_pylist())
        case ".parquet":
            yield from map(binary_row, pq.read_table(path).to_pylist())
        case ".jsonl":
            with path.open() as lines:
                yield from (text_row(json.loads(line)) for line in lines)
        case ".csv":
            with path.open(newline="") as lines:
                yield from (text_row(row | {"headers": json.loads(row["headers"])}) for row in csv.DictReader(lines))


def binary_row(row: Mapping[str, Any]) -> tuple[str, Record]:
    headers = tuple(Header(header["key"], header["value"]) for header in row["headers"])
    timestamp = row["timestamp"]
    milliseconds = round(timestamp.timestamp() * 1000)
    kind = TimestampType(row["timestamp_type"])
    return f"{row['topic']}-{row['partition']}", Record(
        row["offset"], milliseconds, kind, row["key"], row["value"], headers
    )


def text_row(row: Mapping[str, Any]) -> tuple[str, Record]:
    key, value = (None if row[name] is None else bytes.fromhex(row[name]) for name in ("key", "value"))
    headers = tuple(Header(header["key"], as_bytes(header["value"])) for header in row["headers"])
    return (
        f"{row['topic']}-{row['partition']}",
        Record(int(row["offset"]), int(row["timestamp"]), TYPES[row["timestamp_type"]], key, value, headers),
    )


def as_bytes(text: str | None) -> bytes | None:
    if text is None:
        return None
    return bytes.fromhex(text[2:]) if text.startswith("0x") else text.encode()


@pytest.mark.parametrize("form", ["jsonl", "arrow", "parquet"])
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("set_name", SETS)
def test_files_hold_the_records_of_the_manifest(
    golden: GoldenFactory, tmp_path: Path, set_name: str, isolation: str, form: str
) -> None:
    expected = {name: levels[isolation] for name, levels in manifest(set_name).items() if isolation in levels}
    limits = ReadLimits(isolation=Isolation(isolation))
    results = export(golden(set_name), list(expected), tmp_path / "out", form, shape=HEX, limits=limits)
    assert {path.name for path in (tmp_path / "out").glob("*")} == {f"{name}.{form}" for name in expected}
    for result in results:
        entry = expected[str(result.partition)]
        assert result.error is None
        assert (result.records, result.first_offset, result.last_offset) == (
            entry["count"],
            entry["first"],
            entry["last"],
        )
        assert result.file_bytes == result.file.stat().st_size
        records = (record for _, record in records_of(result.file))
        assert manifest_entry(records, low=entry["low"], high=entry["high"]) == entry


@pytest.mark.parametrize("form", list(ExportFormat))
def test_one_file_for_all(golden: GoldenFactory, tmp_path: Path, form: str) -> None:
    names = ["dotted.topic-with_dash-0", "dotted.topic-with_dash-1", "empty-0", "lz4-0"]
    path = tmp_path / "deep" / "down" / f"all.{form}"
    results = export(golden(SCENARIOS), names, path, form, one_file=True, shape=HEX)
    assert [str(result.partition) for result in results] == names
    assert list(path.parent.iterdir()) == [path]
    found: dict[str, int] = {}
    for name, _ in records_of(path):
        found[name] = found.get(name, 0) + 1
    assert found == {"dotted.topic-with_dash-0": 150, "dotted.topic-with_dash-1": 150, "lz4-0": 1500}


def test_a_stretch_of_offsets_or_time(golden: GoldenFactory, tmp_path: Path) -> None:
    for number, (start, end, wanted) in enumerate(
        [("100", "110", range(100, 110)), ("-5", "latest", range(1995, 2000)), ("5", "779", (777, 778))]
    ):
        bounds = {"start": parse_bound(start), "end": parse_bound(end)}
        name = "trimmed-0" if number else "plain-0"
        (result,) = export(golden(SCENARIOS), [name], tmp_path / f"{number}.jsonl", "jsonl", one_file=True, **bounds)
        offsets = [json.loads(line)["offset"] for line in result.file.read_text().splitlines()]
        assert offsets == list(wanted)
    (result,) = export(
        golden(FORMATS),
        ["v1-none-0"],
        tmp_path / "time.parquet",
        "parquet",
        one_file=True,
        start=parse_bound("2017-07-14T02:45"),
        end=parse_bound("2017-07-14T02:50"),
    )
    assert 0 < result.records < 900
    assert str(min(pq.read_table(result.file)["timestamp"].to_pylist()))[:16] == "2017-07-14 02:45"


def test_chunks_become_row_groups(golden: GoldenFactory, tmp_path: Path) -> None:
    (result,) = export(golden(SCENARIOS), ["plain-0"], tmp_path / "x.parquet", "parquet", one_file=True)
    assert pq.ParquetFile(result.file).num_row_groups == 1


def test_left_out_columns(golden: GoldenFactory, tmp_path: Path) -> None:
    shape = RowShape(key_format=BytesFormat.NONE, value_format=BytesFormat.NONE)
    (result,) = export(golden(SCENARIOS), ["plain-0"], tmp_path / "x.csv", "csv", one_file=True, shape=shape)
    assert result.file.read_text().splitlines()[0] == "topic,partition,offset,timestamp,timestamp_type,headers"


def test_nothing_is_overwritten_unless_asked_for(golden: GoldenFactory, tmp_path: Path) -> None:
    path = tmp_path / "gz-0.jsonl"
    path.write_text("precious")
    with pytest.raises(ConfigError, match="the file already exists; --force replaces it"):
        export(golden(SCENARIOS), ["gz-0", "lz4-0"], tmp_path, "jsonl")
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == "precious"
    export(golden(SCENARIOS), ["gz-0", "lz4-0"], tmp_path, "jsonl", replace_files=True)
    assert len(path.read_text().splitlines()) == 1500


def test_never_among_kafkas_files(golden: GoldenFactory, tmp_path: Path) -> None:
    directory = golden(SCENARIOS)
    (tmp_path / "link").symlink_to(directory)
    for output in (directory, directory / "gz-0" / "x.csv", tmp_path / "link" / "sub"):
        with pytest.raises(ConfigError, match="the output lies inside the log directory"):
            export(directory, ["gz-0"], output, "csv")
    with pytest.raises(ConfigError, match="directory"):
        export(directory, ["gz-0"], tmp_path, "csv", one_file=True)


def test_a_partition_in_two_directories(golden: GoldenFactory, tmp_path: Path) -> None:
    part = [TopicPartition("gz", 0)]
    sources = [(golden(SCENARIOS), part), (golden(SCENARIOS, "unclean"), part)]
    options = ExportOptions(output=tmp_path / "out", format=ExportFormat.CSV)
    with pytest.raises(ConfigError, match="export them separately"):
        export_partitions(LOCAL, sources, options)
    together = ExportOptions(output=tmp_path / "both.arrow", format=ExportFormat.ARROW, one_file=True)
    assert sum(result.records for result in export_partitions(LOCAL, sources, together)) == 3000


@pytest.fixture
def damaged(golden_copy: GoldenFactory) -> Path:
    """Copy SCENARIOS and flip a byte in the middle of gz-0."""
    directory = golden_copy(SCENARIOS)
    log = sorted((directory / "gz-0").glob("*.log"))[1]
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    return directory


@pytest.mark.parametrize("form", list(ExportFormat))
def test_a_damaged_batch_makes_no_file(damaged: Path, tmp_path: Path, form: str) -> None:
    output = tmp_path / "out"
    results = {str(result.partition): result for result in export(damaged, ["gz-0", "lz4-0"], output, form)}
    assert isinstance(results["gz-0"].error, CorruptRecordError)
    assert results["lz4-0"].error is None
    assert [path.name for path in output.iterdir()] == [f"lz4-0.{form}"]


def test_a_damaged_batch_can_be_left_out(damaged: Path, tmp_path: Path) -> None:
    (result,) = export(damaged, ["gz-0"], tmp_path / "out", "jsonl", on_corrupt=CorruptPolicy.SKIP)
    assert result.error is None
    assert result.skipped_ranges == 1
    assert result.skipped_bytes > 0
    assert 0 < result.records < 1500


def test_an_output_that_cannot_be_written(golden: GoldenFactory, tmp_path: Path) -> None:
    (tmp_path / "gz-0.csv.tmp").mkdir()
    (result,) = export(golden(SCENARIOS), ["gz-0"], tmp_path, "csv")
    assert isinstance(result.error, StorageError)


@pytest.mark.parametrize("one_file", [True, False])
def test_a_cancelled_run_leaves_whole_files_only(golden: GoldenFactory, tmp_path: Path, one_file: bool) -> None:
    cancelled = threading.Event()
    output = tmp_path / "all.parquet" if one_file else tmp_path / "out"
    options = ExportOptions(output=output, format=ExportFormat.PARQUET, one_file=one_file, threads=1)
    sources = [(golden(SCENARIOS), [TopicPartition(name, 0) for name in ("gz", "lz4", "plain", "zstd")])]
    with pytest.raises(CancelledError):
        export_partitions(LOCAL, sources, options, advance=lambda _bytes: cancelled.set(), cancelled=cancelled)
    left = list(tmp_path.rglob("*.*"))
    assert [path for path in left if path.suffix == ".tmp"] == []
    assert all(pq.read_table(path).num_rows for path in left)
