"""``dump`` as JSON lines: every file kind of the golden sets, records of internal topics, unknown records, damage."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from base64 import b64decode
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dump_cases import DATA
from golden_sets import FLIGHTS, FORMATS, KRAFT_SETS, SCENARIOS, SETS, footprint, manifest
from tidelog.inspect.dump import (
    JsonOptions,
    KafkaFormatOptions,
    PayloadDecoder,
    choose_payload_decoder,
    dump_json,
    dump_kafka_format,
)

Golden = Callable[..., Path]


def files_below(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file() and path.name != ".lock")


def rows_of(*paths: Path, **options: Any) -> list[dict[str, Any]]:
    return list(dump_json(paths, JsonOptions(**options)))


@pytest.mark.parametrize("set_name", SETS)
def test_every_file_can_be_read(set_name: str, golden: Golden) -> None:
    directory = golden(set_name)
    before = footprint(directory)
    types = Counter(row["type"] for row in dump_json(files_below(directory)))
    assert footprint(directory) == before
    assert "error" not in types
    assert "trailing_bytes" not in types
    assert {"record", "checkpoint_entry", "clean_shutdown", "meta_properties", "partition_metadata"} <= types.keys()


@pytest.mark.parametrize("set_name", KRAFT_SETS)
def test_files_of_a_killed_broker(set_name: str, golden: Golden) -> None:
    types = Counter(row["type"] for row in dump_json(files_below(golden(set_name, "unclean"))))
    assert "error" not in types


@pytest.mark.parametrize("set_name", [SCENARIOS, FORMATS])
def test_records_are_those_a_consumer_read(set_name: str, golden: Golden) -> None:
    """Parsed JSON lines produce the digest of the manifest."""
    kinds = {"none": 0, "create": 1, "log_append": 2}
    for partition, levels in manifest(set_name).items():
        if partition == "big-0" or "read_uncommitted" not in levels:
            continue
        expected = levels["read_uncommitted"]
        digest = hashlib.sha256()
        count = 0
        for line in map(json.dumps, dump_json(sorted((golden(set_name) / partition).glob("*.log")))):
            row = json.loads(line)
            if "control" in row or not expected["low"] <= row["offset"] < expected["high"]:
                continue
            kind = kinds[row["timestamp_type"]]
            headers = [[header["key"], _hex(header, "value")] for header in row["headers"]]
            told = [row["offset"], kind, row["timestamp"] if kind else 0, _hex(row, "key"), _hex(row, "value"), headers]
            digest.update(json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")
            count += 1
        assert (count, digest.hexdigest()) == (expected["count"], expected["sha256"]), partition


def _hex(row: dict[str, Any], name: str) -> str | None:
    if f"{name}_base64" in row:
        return b64decode(row[f"{name}_base64"]).hex()
    value = row[name]
    return None if value is None else value.encode().hex()


def test_batches(golden: Golden) -> None:
    path = golden(SCENARIOS) / "txn-0" / "00000000000000000000.log"
    batches, records = rows_of(path, batches=True), rows_of(path)
    assert sum(batch["count"] for batch in batches) == len(records)
    assert batches[0]["position"] == 0
    assert sum(batch["size"] for batch in batches) == path.stat().st_size
    assert {batch["is_valid"] for batch in batches} == {True}
    assert {record["position"] for record in records} == {batch["position"] for batch in batches}
    markers = [record["control"] for record in records if "control" in record]
    assert {marker["name"] for marker in markers} == {"COMMIT", "ABORT"}


def test_internal_topics_are_decoded(golden: Golden) -> None:
    (offset,) = {
        row["value"]["fields"]["offset"]
        for row in dump_json([golden(FLIGHTS) / "__consumer_offsets-1" / "00000000000000000000.log"])
        if row["key"]["name"] == "OffsetCommitKey" and row["key"]["fields"]["partition"] == 2
    }
    assert offset == 625
    states = [row["value"] for row in dump_json([golden(FLIGHTS) / "__transaction_state-3" / f"{0:020d}.log"])]
    assert {state["name"] for state in states} == {"TransactionLogValue"}
    metadata = rows_of(golden(FLIGHTS) / "__cluster_metadata-0" / f"{0:020d}.log")
    assert metadata[0]["control"]["name"] == "LEADER_CHANGE"
    assert metadata[1]["value"]["fields"] == {"name": "Bootstrap records"}
    assert {row["value"]["name"] for row in dump_json([golden(FLIGHTS) / "bootstrap.checkpoint"]) if "value" in row}


@pytest.mark.parametrize(
    ("name", "decoder"),
    [
        ("group", PayloadDecoder.OFFSETS),
        ("transaction", PayloadDecoder.TRANSACTION_LOG),
        ("share", PayloadDecoder.SHARE_GROUP_STATE),
        ("metadata", PayloadDecoder.CLUSTER_METADATA),
        ("remote", PayloadDecoder.REMOTE_LOG_METADATA),
        ("protocol", PayloadDecoder.OFFSETS),
        ("control", PayloadDecoder.PLAIN),
    ],
)
def test_every_record_type(name: str, decoder: PayloadDecoder) -> None:
    rows = rows_of(DATA / "records" / f"{name}.log", decoder=decoder)
    assert {row["type"] for row in rows} == {"record"}
    assert len(rows) > 10
    for row in rows:
        json.loads(json.dumps(row, allow_nan=False))


def test_unknown_records_are_raw_and_broken_ones_say_so() -> None:
    rows = rows_of(DATA / "records" / "group.log", decoder=PayloadDecoder.OFFSETS)
    unknown_type = next(row for row in rows if row["key"].get("number") == 77)
    assert unknown_type["key"] == {"name": None, "number": 77, "version": 0, "raw": "AE0BAg=="}
    unknown_version = [row["value"] for row in rows if row["value"] and row["value"].get("version") == 99]
    assert unknown_version[0].keys() == {"name", "number", "version", "raw"}
    broken = [row["value"] for row in rows if row["value"] and "error" in row["value"]]
    assert broken[0].keys() == {"error", "raw"}
    assert any(row["key"].get("error") for row in rows)


def test_control_records() -> None:
    rows = rows_of(DATA / "records" / "control.log")
    names = [row["control"]["name"] for row in rows]
    assert names[:4] == ["COMMIT", "COMMIT", "ABORT", "ABORT"]
    assert rows[1]["control"] == {"name": "COMMIT", "coordinator_epoch": 7}
    assert Counter(names[4:]) == {
        "LEADER_CHANGE": 4,
        "SNAPSHOT_HEADER": 2,
        "SNAPSHOT_FOOTER": 1,
        "KRAFT_VERSION": 1,
        "KRAFT_VOTERS": 3,
        None: 1,
    }
    assert rows[-1]["control"] == {"name": None, "number": 55}
    assert rows[-1]["raw"] == "AQI="


def test_bytes_that_are_no_text() -> None:
    rows = rows_of(DATA / "logs" / "text.log")
    assert rows[0]["key_base64"] == rows[0]["value_base64"] == "/w=="
    assert "key" not in rows[0]
    headers = next(row["headers"] for row in rows if row["headers"])
    assert headers == [
        {"key": "a", "value": None},
        {"key": "", "value": "\x01"},
        {"key": "rä,]", "value": "\x02"},
        {"key": "a", "value": ""},
    ]


def test_damage_becomes_error_objects(golden_copy: Golden) -> None:
    directory = golden_copy(FLIGHTS)
    partition = directory / "__transaction_state-3"
    log, index = partition / f"{0:020d}.log", partition / f"{0:020d}.index"
    log.write_bytes(log.read_bytes()[:-5])
    index.write_bytes(index.read_bytes() + b"\0\0\0\1\0\0\0\1")
    rows = rows_of(log, index)
    assert [row["type"] for row in rows if row["type"] not in ("record", "offset_index_entry")] == [
        "trailing_bytes",
        "error",
    ]
    assert rows[-1]["position"] == 56
    (directory / "meta.properties").write_bytes(b"\xff")
    (directory / "quorum-state").write_bytes(b"[")
    (directory / "recovery-point-offset-checkpoint").write_text("7\n")
    names = ("meta.properties", "quorum-state", "recovery-point-offset-checkpoint", "nothing", "what.is")
    rows = rows_of(*(directory / name for name in names))
    assert [row["type"] for row in rows] == ["error"] * len(names)
    assert [Path(row["file"]).name for row in rows] == list(names)


def test_files_on_their_way_out_are_read(golden: Golden, tmp_path: Path) -> None:
    source = golden(SCENARIOS) / "txn-0"
    for name in (f"{0:020d}.log", f"{0:020d}.index", f"{0:020d}.txnindex"):
        shutil.copy(source / name, tmp_path / f"{name}.deleted")
        renamed = [row | {"file": ""} for row in dump_json([tmp_path / f"{name}.deleted"])]
        assert renamed == [row | {"file": ""} for row in dump_json([source / name])]


def test_max_bytes(golden: Golden) -> None:
    path = golden(SCENARIOS) / "plain-0" / f"{0:020d}.log"
    rows = rows_of(path, batches=True, max_bytes=3000)
    assert rows == rows_of(path, batches=True)[: len(rows)]
    assert rows[-1]["position"] + rows[-1]["size"] <= 3000


@pytest.mark.parametrize("seed", range(40))
def test_flips_never_end_a_dump(seed: int, golden: Golden, tmp_path: Path) -> None:
    """Both forms of ``dump`` read any file with changed or missing bytes, and complain instead of raising."""
    chance = random.Random(seed)
    candidates = [path for path in files_below(golden(chance.choice(SETS))) if 0 < path.stat().st_size < 40_000]
    for path in chance.sample(candidates, 12):
        data = bytearray(path.read_bytes())
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        if chance.random() < 0.2:
            del data[chance.randrange(len(data)) :]
        directory = tmp_path / path.parent.name
        directory.mkdir(exist_ok=True)
        for neighbour in (".log", ".index", ".timeindex"):
            if path.with_suffix(neighbour).exists():
                shutil.copy(path.with_suffix(neighbour), directory)
        damaged = directory / path.name
        damaged.write_bytes(data)
        for row in dump_json([damaged]):
            json.dumps(row, allow_nan=False)
        options = KafkaFormatOptions(
            print_data_log=True, decoder=choose_payload_decoder(path.parent.name), index_sanity_check=seed % 4 == 0
        )
        for piece in dump_kafka_format([damaged], options, complain=lambda _: None):
            piece.encode()
