"""The page of records: against the golden manifests and the records command, bounds, filters, formats, hostile data."""

from __future__ import annotations

import io
import json
import struct
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastavro import parse_schema, schemaless_writer

from conftest import GoldenFactory
from counted_calls import CountedCalls
from golden_sets import EVERYTHING, FORMATS, SCENARIOS, manifest
from log_maker import BASE_TIME, batch, data, mark_clean, marker, plain, write_checkpoint, write_segment
from tidelog.api import open_log
from tidelog.model import ConfigError, DirectoryError, FileMissingError, Record, TimestampType
from tidelog.record.build import build_batch
from tidelog.web.page import Page, Table
from tidelog.web.sources import Sources
from web.harness import facts_of, read_page, rows_of, section_of, serving

HOSTILE = "</bdi><script>alert(1)</script>\u202etxt\u2066\0\x1b[31m"


def url(log: str, **query: object) -> str:
    parts = [f"{name}={quote(str(value))}" for name, value in query.items()]
    return f"/logs/0/{log}/records" + (f"?{'&'.join(parts)}" if parts else "")


def link_of(page: Page, title: str) -> str | None:
    """Return the query of a link of the records."""
    found = (link.url for link in section_of(page, "records").links if link.title.startswith(title))
    return next(found, None)


def table_of(page: Page) -> Table:
    table = section_of(page, "records").table
    assert table is not None
    return table


def offsets_of(page: Page) -> list[int]:
    return [row["offset"] for row in rows_of(page, "records") if row["kind"] == "record"]


def all_rows(root: Path, log: str, **query: object) -> list[dict[str, Any]]:
    """Return the rows of all pages, by following the links."""
    rows: list[dict[str, Any]] = []
    path: str | None = url(log, **query)
    while path is not None:
        page = read_page(root, path)
        rows += rows_of(page, "records")
        following = link_of(page, "Next") or link_of(page, "Continue")
        path = None if following is None else f"/logs/0/{log}/records{following}"
    return rows


def backward_offsets(root: Path, log: str, **query: object) -> list[int]:
    """Return the offsets of all pages, by following the links to the previous pages."""
    seen: list[int] = []
    path: str | None = url(log, **query)
    while path is not None:
        page = read_page(root, path)
        seen = [*offsets_of(page), *seen]
        previous = link_of(page, "Previous")
        path = None if previous is None else f"/logs/0/{log}/records{previous}"
    return seen


@pytest.mark.parametrize(
    ("set_name", "log", "isolation"),
    [
        *((EVERYTHING["4.4"], log, "read_uncommitted") for log in ("plain-0", "zstd-0", "compacted-0", "trimmed-0")),
        (EVERYTHING["4.4"], "txn-0", "read_uncommitted"),
        (EVERYTHING["4.4"], "txn-0", "read_committed"),
        (FORMATS, "v1-gzip-0", "read_uncommitted"),
        (SCENARIOS, "big-0", "read_committed"),
    ],
)
def test_all_pages_have_the_records_that_a_consumer_reads(
    set_name: str, log: str, isolation: str, golden: GoldenFactory
) -> None:
    expected = manifest(set_name)[log][isolation]
    rows = all_rows(golden(set_name), log, isolation=isolation, limit=200, value_format="hex")
    records = [row for row in rows if row["kind"] == "record"]
    assert len(records) == expected["count"]
    assert records[0]["offset"] == expected["first"]
    assert records[-1]["offset"] == expected["last"]
    assert len(records) == len(rows)


def test_keys_values_and_headers_are_those_of_the_api(golden: GoldenFactory) -> None:
    root = golden(SCENARIOS)
    rows = all_rows(root, "plain-0", limit=500, key_format="hex", value_format="hex")
    log = open_log(root / "plain-0", read_only=True)
    for row, record in zip(rows, log.records(), strict=True):
        assert row["offset"] == record.offset
        assert row["timestamp"] == record.timestamp
        assert row["key"] == (None if record.key is None else record.key.hex())
        assert row["value"] == (None if record.value is None else record.value.hex())
        assert [header["key"] for header in row["headers"] or ()] == [header.key for header in record.headers]
        assert row["is_tombstone"] == (record.value is None and record.key is not None)


def test_each_record_leads_to_its_batch(golden: GoldenFactory) -> None:
    root = golden(EVERYTHING["4.4"])
    for row in rows_of(read_page(root, url("gzip-0", start=30, limit=5)), "records"):
        path, _, query = row["url"].partition("#")[0].partition("?")
        page = read_page(root, f"{path}?{query}")
        assert facts_of(page)["base_offset"] <= row["offset"] <= facts_of(page)["last_offset"]
        fields = {one["field"]: one["meaning"] for one in rows_of(page, "record")}
        assert fields["offsetDelta"] == f"offset {row['offset']}"


def made(tmp_path: Path, batches: list[bytes], *, interval_bytes: int = 4096) -> Path:
    mark_clean(tmp_path)
    return write_segment(tmp_path / "t-0", 0, batches, interval_bytes=interval_bytes)


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("earliest", range(5)),
        ("latest", range(0)),
        ("7", range(7, 12)),
        ("-3", range(997, 1000)),
        ("<20", range(15, 20)),
        ("<3", range(3)),
        ("<0", range(0)),
        ("<99999", range(995, 1000)),
        ("5000", range(0)),
        (f"@{BASE_TIME + 500}", range(500, 505)),
        ("2023-11-14T22:13:20.100Z", range(100, 105)),
        ("2040-01-01", range(0)),
    ],
)
def test_the_start(tmp_path: Path, start: str, expected: range) -> None:
    made(tmp_path, [plain(number * 10, 10) for number in range(100)])
    page = read_page(tmp_path, url("t-0", start=start, limit=5))
    assert offsets_of(page) == list(expected)
    assert facts_of(page)["next_offset"] == (expected[-1] + 1 if expected else facts_of(page)["next_offset"])


@pytest.mark.parametrize(
    "query", [{"start": "x"}, {"start": "<x"}, {"limit": 0}, {"limit": 501}, {"isolation": "x"}, {"until": "x"},
              {"key_format": "x"}, {"value_bytes": 2**21}, {"follow": "2"}, {"control": "yes"}, {"key_match": "x"}],
)  # fmt: skip
def test_wrong_parameters_are_refused(tmp_path: Path, query: dict[str, object]) -> None:
    made(tmp_path, [plain(0, 3)])
    with pytest.raises(ConfigError):
        read_page(tmp_path, url("t-0", **query))


def test_pages_backward_have_the_same_records(tmp_path: Path) -> None:
    """The log has large gaps between its offsets, as after a compaction."""
    mark_clean(tmp_path)
    offsets = sorted({number * number * 7 + number for number in range(400)})
    write_segment(tmp_path / "t-0", 0, [plain(offset, 1) for offset in offsets], interval_bytes=1000)
    assert backward_offsets(tmp_path, "t-0", start="<99999999", limit=30) == offsets


def test_large_records_are_read_backward_step_by_step(tmp_path: Path) -> None:
    made(tmp_path, [batch(number, [bytes(1_500_000)]) for number in range(40)])
    page = read_page(tmp_path, url("t-0", start="<40", limit=30))
    offsets = offsets_of(page)
    assert offsets == list(range(offsets[0], 40))
    assert len(offsets) >= 5
    previous = link_of(page, "Previous")
    assert previous is not None
    earlier = offsets_of(read_page(tmp_path, f"/logs/0/t-0/records{previous}"))
    assert earlier[-1] == offsets[0] - 1


def test_a_filter_that_drops_everything_stops_and_goes_on(tmp_path: Path) -> None:
    batches = [batch(number, [b"x" * 100_000], key=b"k%d" % (number % 100)) for number in range(300)]
    made(tmp_path, batches)
    page = read_page(tmp_path, url("t-0", key="nothing"))
    assert not rows_of(page, "records")
    following = link_of(page, "Continue at offset")
    assert following is not None
    assert 50 < facts_of(page)["next_offset"] < 150
    assert "goes on at offset" in page.notes[0]
    assert not all_rows(tmp_path, "t-0", key="nothing")
    assert [row["offset"] for row in all_rows(tmp_path, "t-0", key="k7")] == [7, 107, 207]
    assert [row["offset"] for row in all_rows(tmp_path, "t-0", key="k7", key_match="prefix")][:3] == [7, 70, 71]
    assert [row["offset"] for row in all_rows(tmp_path, "t-0", key="0x6b37")] == [7, 107, 207]
    assert backward_offsets(tmp_path, "t-0", key="k7", start="<300") == [7, 107, 207]


def test_a_page_makes_progress_without_an_index(tmp_path: Path) -> None:
    path = made(tmp_path, [plain(number * 10, 10, size=3000) for number in range(700)])
    path.with_suffix(".index").unlink()
    page = read_page(tmp_path, url("t-0", start="6000", limit=3))
    assert offsets_of(page) == [6000, 6001, 6002]
    assert offsets_of(read_page(tmp_path, url("t-0", start="<6000", limit=3))) == [5997, 5998, 5999]
    assert offsets_of(read_page(tmp_path, url("t-0", key="k", start="6997"))) == [6997, 6998, 6999]


def test_control_records_aborted_records_and_open_transactions(tmp_path: Path) -> None:
    batches = [data(0, 2), marker(2, False), data(3, 2), marker(5, True), data(6, 1), plain(7, 1)]
    write_segment(tmp_path / "t-0", 0, batches)
    write_checkpoint(tmp_path, "recovery-point-offset-checkpoint", {"t-0": 0})
    rows = rows_of(read_page(tmp_path, url("t-0", control=1)), "records")
    assert [row["offset"] for row in rows] == list(range(8))
    notes = {row["offset"]: row["notes"] for row in rows}
    assert notes[0] == notes[1] == ["aborted"]
    assert notes[2] == ["control record"]
    assert notes[3] == notes[7] == []
    assert notes[6] == ["open transaction"]
    assert [rows[2]["key"], rows[5]["key"]] == ["abort", "commit"]
    assert offsets_of(read_page(tmp_path, url("t-0"))) == [0, 1, 3, 4, 6, 7]
    assert offsets_of(read_page(tmp_path, url("t-0", isolation="read_committed"))) == [3, 4]


def test_damage_in_the_middle_is_a_row_and_the_rest_is_readable(tmp_path: Path) -> None:
    batches = [plain(number * 10, 10) for number in range(30)]
    path = made(tmp_path, batches)
    content = bytearray(path.read_bytes())
    at = sum(map(len, batches[:12]))
    content[at + 16] = 99
    path.write_bytes(bytes(content))
    rows = rows_of(read_page(tmp_path, url("t-0", limit=500)), "records")
    gap = [row for row in rows if row["kind"] == "gap"]
    assert [(row["offset"], row["position"], row["value_size"]) for row in gap] == [(120, at, len(batches[12]))]
    assert "cannot be read" in gap[0]["notes"][0]
    assert [row["offset"] for row in rows if row["kind"] == "record"] == [*range(120), *range(130, 300)]
    assert gap[0]["url"].endswith(f"/batches/{at}")
    backward = rows_of(read_page(tmp_path, url("t-0", start="<140", limit=20)), "records")
    assert [row["offset"] for row in backward][-10:] == list(range(130, 140))
    assert any(row["kind"] == "gap" for row in backward)


def test_very_many_gaps_make_several_pages(tmp_path: Path) -> None:
    batches = [plain(number, 1) for number in range(400)]
    path = made(tmp_path, batches)
    content = bytearray(path.read_bytes())
    for number in range(0, 400, 2):
        content[number * len(batches[0]) + 65] ^= 1
    path.write_bytes(bytes(content))
    rows = all_rows(tmp_path, "t-0", limit=500)
    assert [row["offset"] for row in rows if row["kind"] == "record"] == list(range(1, 400, 2))
    first = rows_of(read_page(tmp_path, "/logs/0/t-0/records?limit=500"), "records")
    assert sum(row["kind"] == "gap" for row in first) == 50


def test_internal_topics_are_decoded_and_secrets_are_hidden(golden: GoldenFactory) -> None:
    root = golden(EVERYTHING["4.4"])
    offsets = rows_of(read_page(root, url("__consumer_offsets-0")), "records")
    assert {row["key"]["name"] for row in offsets} >= {"GroupMetadataKey", "OffsetCommitKey"} or offsets
    assert all(row["key_format"] == "internal" for row in offsets)
    metadata = all_rows(root, "__cluster_metadata-0", limit=500)
    names = {row["value"]["name"] for row in metadata if isinstance(row["value"], dict)}
    assert {"TopicRecord", "PartitionRecord", "UserScramCredentialRecord"} <= names
    scram = [row["value"] for row in metadata if isinstance(row["value"], dict) and "Scram" in row["value"]["name"]]
    assert scram[0]["fields"]["salt"] == scram[0]["fields"]["storedKey"] == "[hidden]"
    for form in ("text", "hex", "base64", "json", "avro"):
        rows = all_rows(root, "__cluster_metadata-0", limit=500, value_format=form)
        assert sum(row["value_format"] == "hidden" for row in rows) >= len(scram)
    for log in ("__transaction_state-0", "__share_group_state-0"):
        for row in all_rows(root, log):
            assert row["key_format"] == "internal"


def test_long_values_are_shortened_with_a_link_to_more(tmp_path: Path) -> None:
    values = [b"x" * 10_000, b"y" * 3_000_000, json.dumps({"a": ["b" * 100] * 100}).encode()]
    made(tmp_path, [batch(0, values)])
    page = read_page(tmp_path, url("t-0", value_format="json"))
    rows = rows_of(page, "records")
    assert [len(row["value"]) for row in rows] == [4096, 4096, 4096]
    assert [row["value_size"] for row in rows] == [len(value) for value in values]
    assert all("value shortened" in row["notes"] for row in rows)
    column = next(column for column in table_of(page).columns if column.name == "value_size")
    assert column.link is not None
    more = [column.link(row) for row in rows]
    full = [rows_of(read_page(tmp_path, f"/logs/0/t-0/records{query}"), "records")[0] for query in more]
    assert [len(str(row["value"])) for row in full[:2]] == [10_000, 2**20]
    assert full[2]["value"] == json.loads(values[2])
    assert [row["value_is_shortened"] for row in full] == [False, True, False]


def test_the_text_of_one_page_is_bounded(tmp_path: Path) -> None:
    made(tmp_path, [batch(number, [b"z" * 900_000]) for number in range(20)])
    page = read_page(tmp_path, url("t-0", value_bytes=2**20, limit=500))
    assert 3 < len(rows_of(page, "records")) < 8
    assert link_of(page, "Continue") is not None
    assert "The page is full" in page.notes[0]


def test_a_value_of_100_mb_needs_little_memory(tmp_path: Path) -> None:
    value = b"v" * (100 * 1024 * 1024)
    made(tmp_path, [plain(0, 2), batch(2, [value]), plain(3, 2)])
    del value
    tracemalloc.start()
    with CountedCalls() as calls:
        page = read_page(tmp_path, url("t-0", value_format="json"))
    assert calls.number < 400_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    rows = rows_of(page, "records")
    assert offsets_of(page) == [0, 1, 2, 3, 4]
    assert rows[2]["value_size"] == 100 * 1024 * 1024
    assert rows[2]["value"] == "v" * 4096
    assert "CRC not checked" in rows[2]["notes"]
    assert peak < 10 * 1024 * 1024


def test_a_compression_bomb_is_a_gap(tmp_path: Path) -> None:
    bomb = build_batch(
        [Record(1, 1, TimestampType.CREATE, b"k", bytes(200 * 1024 * 1024))], base_offset=1, codec="zstd"
    )
    made(tmp_path, [plain(0, 1), bytes(bomb), plain(2, 1)])
    rows = rows_of(read_page(tmp_path, url("t-0")), "records")
    assert [row["kind"] for row in rows] == ["record", "gap", "record"]
    page = read_page(tmp_path, rows[1]["url"])
    assert any("decompresses to more than" in note for note in page.notes)


def test_hostile_text_reaches_no_browser(tmp_path: Path) -> None:
    values = [HOSTILE.encode(), b"\xed\xa0\x80\xff", rb'{"a":"\ud800\u202e<script>"}', b"[" * 100_000, b""]
    made(tmp_path, [batch(0, values, key=HOSTILE.encode())])
    with serving(tmp_path) as served:
        for form in ("auto", "text", "json", "hex", "base64", "avro", "internal"):
            address = url("t-0", key_format=form, value_format=form, follow=1)
            html = served.ready(address)
            assert html.status == 200
            for text in ("<script>alert", "</bdi><script", "\u202e", "\u2066", "\0", "\x1b", "\ud800"):
                assert text not in html.text
            found = served.ready(url("t-0", key_format=form, value_format=form).replace("records?", "records.json?"))
            assert len(found.json["sections"]["records"]["rows"]) == 5
        assert served.ready(url("t-0", key=HOSTILE)).status == 200
        assert "<script>alert" not in served.ready(url("t-0", key=HOSTILE)).text


def test_an_empty_log_has_a_page(golden: GoldenFactory) -> None:
    page = read_page(golden(SCENARIOS), url("empty-0"))
    assert not rows_of(page, "records")
    assert table_of(page).empty == "There are no records here."
    assert facts_of(page)["next_offset"] == 0


ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
}


def avro(value: object, number: int, schema: object = ORDER) -> bytes:
    out = io.BytesIO()
    schemaless_writer(out, parse_schema(json.loads(json.dumps(schema))), value)
    return struct.pack(">bi", 0, number) + out.getvalue()


def write_records(directory: Path, records: Sequence[tuple[bytes | None, bytes | None]]) -> None:
    """Write records through tidelog."""
    with open_log(directory) as log:
        for key, value in records:
            log.append(value, key)


def schema_record(subject: str, version: int, number: int, schema: object, **more: object) -> tuple[bytes, bytes]:
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
    value = {"subject": subject, "version": version, "id": number, "schema": json.dumps(schema), "deleted": False}
    return json.dumps(key).encode(), json.dumps(value | more).encode()


def test_avro_with_the_schemas_of_a_registry(tmp_path: Path) -> None:
    registry: list[tuple[bytes, bytes | None]] = [
        schema_record("orders-value", 1, 1, ORDER),
        schema_record("orders-key", 1, 2, "string"),
        (schema_record("orders-value", 1, 1, ORDER)[0], None),
    ]
    write_records(tmp_path / "a" / "_schemas-0", registry)
    values: list[bytes | None] = [avro({"id": number, "note": HOSTILE if number else None}, 1) for number in range(3)]
    values += [avro({"id": 9, "note": None}, 1) + b"rest", avro({"id": 9, "note": None}, 7), b"text", None]
    write_records(tmp_path / "b" / "orders-0", [(avro("k", 2, "string"), value) for value in values])
    roots = [tmp_path / "b", tmp_path / "a"]
    rows = rows_of(read_page(roots, url("orders-0")), "records")
    assert [row["key"] for row in rows] == ["k"] * 7
    assert rows[0]["value"] == {"id": 0, "note": None}
    assert rows[1]["value"] == {"id": 1, "note": HOSTILE}
    assert [row["value_format"] for row in rows[:3]] == ["avro"] * 3
    assert rows[0]["value_schema"] == 1
    assert rows[0]["notes"] == ["key schema 2", "schema 1"]
    assert "schema 1: 4 bytes follow the value" in rows[3]["value_problem"]
    assert rows[4]["value_format"] == "text"
    assert (rows[5]["value"], rows[6]["value"]) == ("text", None)
    wanted = rows_of(read_page(roots, url("orders-0", value_format="avro")), "records")
    assert wanted[4]["value_problem"] == "the schema 7 is not known"
    assert wanted[5]["value_problem"] == "the value has no schema id"
    plain_rows = rows_of(read_page(roots, url("orders-0", value_format="hex")), "records")
    assert plain_rows[0]["value"] == avro({"id": 0, "note": None}, 1).hex()


def test_avro_with_a_folder_of_schemas(tmp_path: Path) -> None:
    folder = tmp_path / "schemas"
    folder.mkdir()
    (folder / "5.avsc").write_text(json.dumps(ORDER))
    (folder / "6.avsc").write_text("[" * 10_000)
    write_records(tmp_path / "b" / "orders-0", [(None, avro({"id": 1, "note": None}, number)) for number in (5, 6)])
    rows = rows_of(read_page(tmp_path / "b", url("orders-0"), schemas=folder), "records")
    assert rows[0]["value"] == {"id": 1, "note": None}
    assert "schema 6: the schema is no JSON" in rows[1]["value_problem"]
    with pytest.raises((DirectoryError, FileMissingError)):
        Sources.of([tmp_path / "b"], schemas=tmp_path / "missing")


def test_the_read_end_is_that_of_the_records_command(golden: GoldenFactory) -> None:
    page = read_page(golden(SCENARIOS), url("txn-0", isolation="read_committed"))
    text = section_of(page, "records").text
    assert "the last stable offset below the last valid batch" in text
    assert facts_of(page)["end_offset"] == manifest(SCENARIOS)["txn-0"]["read_committed"]["high"]


def test_follow_shows_the_last_records_and_asks_for_the_next(golden: GoldenFactory) -> None:
    root = golden(SCENARIOS)
    page = read_page(root, url("plain-0", follow=1, limit=10))
    assert offsets_of(page) == list(range(990, 1000))
    assert page.follow == "records"
    assert page.refresh_seconds is not None
    assert page.follow_query["start"] == "1000"
    with serving(root) as served:
        html = served.ready(url("plain-0", follow=1, limit=10)).text
        empty = served.ready(url("empty-0", follow=1)).text
        found = served.ready("/logs/0/plain-0/records.json?follow=1&start=1000&limit=500").json
    assert '<script src="/static/follow.js" defer></script>' in html
    assert '<noscript><meta http-equiv="refresh"' in html
    assert "start=1000" in html.partition("data-follow=")[2][:200]
    assert "data-follow=" in empty
    assert found["facts"]["next_offset"] == 1000
    assert found["sections"]["records"]["rows"] == []
