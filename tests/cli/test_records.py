"""``tidelog records``: formats, bounds, limits and isolation. It streams, and it can follow a log that grows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import tidelog
from cli.runner import rows, run
from conftest import GoldenFactory
from golden_sets import FLIGHTS, FORMATS, SCENARIOS, manifest
from record_lines import manifest_entry
from tidelog.model import Header, Record, TimestampType

TYPES = {member.name.lower(): member for member in TimestampType}
HEX = ("--key-format", "hex", "--value-format", "hex", "--jsonl")


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("name", ["plain-0", "txn-0", "compacted-0", "trimmed-0", "append-time-0", "empty-0"])
def test_every_record_of_the_manifest_is_printed(golden: GoldenFactory, name: str, isolation: str) -> None:
    printed = run("records", golden(SCENARIOS), name, "--isolation", isolation, *HEX).stdout.splitlines()
    records = []
    for row in map(json.loads, printed):
        key, value = (None if row[side] is None else bytes.fromhex(row[side]) for side in ("key", "value"))
        headers = tuple(Header(header["key"], header_bytes(header["value"])) for header in row["headers"])
        kind = TYPES[row["timestamp_type"]]
        records.append(Record(row["offset"], row["timestamp"], kind, key, value, headers))
    entry = manifest(SCENARIOS)[name][isolation]
    assert manifest_entry(records, low=entry["low"], high=entry["high"]) == entry


def header_bytes(text: str | None) -> bytes | None:
    if text is None:
        return None
    return bytes.fromhex(text[2:]) if text.startswith("0x") else text.encode()


def offsets(*arguments: object) -> list[int]:
    return [row["offset"] for row in rows("records", *arguments)]


def test_bounds_and_limits(golden: GoldenFactory) -> None:
    plain = golden(SCENARIOS) / "plain-0"
    assert offsets(plain, "--start", 10, "--end", 13) == [10, 11, 12]
    assert offsets(plain, "--start", "-2") == [998, 999]
    assert offsets(plain, "--limit", 3) == [0, 1, 2]
    assert offsets(plain, "--limit", 0) == []
    assert offsets(plain, "--start", "latest") == []
    assert offsets(plain, "--start", 999_999) == []
    assert offsets(plain, "--start", 20, "--end", 10) == []
    assert offsets(golden(SCENARIOS), "trimmed-0", "--start", 5, "--limit", 1) == [777]


def test_times_as_bounds(golden: GoldenFactory) -> None:
    log = golden(FORMATS) / "v1-none-0"
    found = rows("records", log, "--start", "2017-07-14T02:45", "--end", "2017-07-14T02:46")
    assert found
    assert all(1_500_000_300_000 <= row["timestamp"] < 1_500_000_360_000 for row in found)
    assert offsets(log, "--start", f"@{found[0]['timestamp']}")[0] == found[0]["offset"]


def test_formats_of_keys_and_values(golden: GoldenFactory) -> None:
    directory = golden(FLIGHTS)
    (row,) = rows("records", directory, "flights-0", "--limit", 1, "--value-format", "json", "--key-format", "base64")
    assert row["value"]["origin"] == "LAS"
    assert row["key"] == "TEFT"
    (row,) = rows("records", directory, "flights-0", "--limit", 1, "--value-format", "none")
    assert "value" not in row
    assert row["key"] == "LAS"


def test_a_table_and_its_notes(golden: GoldenFactory) -> None:
    text = run("records", golden(SCENARIOS), "trimmed-0", "--start", 5, "--limit", 2).stdout
    assert text.splitlines()[0].split() == ["offset", "timestamp", "key", "headers", "value"]
    assert "trimmed-0 begins at offset 777; there is nothing before it." in text
    assert "trimmed-0 ends at offset 2000. " in text
    assert "(no process holds it, its last shutdown was clean)" in text
    ended = run("records", golden(SCENARIOS), "trimmed-0", "--end", 800).stdout
    assert "ends at" not in ended


def test_several_partitions_have_their_names(golden: GoldenFactory) -> None:
    found = rows("records", golden(SCENARIOS), "dotted*")
    assert [row["partition"] for row in found] == [0] * 150 + [1] * 150
    text = run("records", golden(SCENARIOS), "dotted*").stdout
    assert text.startswith("topic ")


def test_damage_comes_after_the_records_before_it(golden_copy: GoldenFactory) -> None:
    log = golden_copy(FLIGHTS) / "flights-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[20_000] ^= 1
    log.write_bytes(data)
    result = run("records", log.parent, "--jsonl", code=3)
    assert len(result.stdout.splitlines()) == 161
    assert str(log) in result.stderr
    assert "position 18367" in result.stderr


def test_an_internal_topic_is_bytes(golden: GoldenFactory) -> None:
    found = rows("records", golden(FLIGHTS), "__consumer_offsets", "--limit", 3)
    assert len(found) == 3


def test_it_follows_a_log_that_grows(tmp_path: Path) -> None:
    path = tmp_path / "clicks-0"
    with tidelog.open_log(path) as log:
        log.append(b"first")
        command = [sys.executable, "-m", "tidelog", "records", str(path), "--follow", "--end", "3", "--jsonl"]
        command += ["--until", "log_end"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            assert json.loads(process.stdout.readline())["value"] == "first"
            log.append_batch([b"second", b"third", b"fourth"])
            assert json.loads(process.stdout.readline())["value"] == "second"
            assert json.loads(process.stdout.readline())["value"] == "third"
            assert process.wait(60) == 0


def test_a_held_log_is_read_to_its_high_watermark(tmp_path: Path) -> None:
    with tidelog.open_log(tmp_path / "clicks-0") as log:
        log.append(b"one")
        code = (
            "import sys; from tidelog.cli.main import main; "
            f"main(['records', {str(tmp_path / 'clicks-0')!r}, *sys.argv[1:]])"
        )
        waiting = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert "the high watermark in its checkpoint" in waiting
        assert "holds it" in waiting
        assert "one" not in waiting
        everything = subprocess.run(
            [sys.executable, "-c", code, "--until", "log_end"], capture_output=True, text=True, check=True
        ).stdout
        assert "one" in everything
