"""The page of a batch: against Kafka's dump, at any position, with damaged and hostile batches."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest

from conftest import GoldenFactory
from golden_sets import EVERYTHING, FORMATS, SCENARIOS
from log_maker import batch, mark_clean, plain, write_segment
from tidelog.inspect import batch_walk
from tidelog.inspect.verify.log_check import check_log
from tidelog.kernel import crc32c
from tidelog.storage.fs import LOCAL
from tidelog.storage.segment.segment_reader import SegmentReader
from tidelog.web.page_json import page_json
from tidelog.web.pages import batch as batch_module
from tidelog.web.sources import NotFoundError
from web.harness import facts_of, read_page, rows_of, section_of, serving

HOSTILE = "<script>alert(1)</script>\u202e\0"


def url(log: str, base: int, position: int, query: str = "") -> str:
    return f"/logs/0/{log}/segments/{base}/batches/{position}{query}"


def values_of(page: Any, section: str = "header") -> dict[str, Any]:
    return {row["field"]: row["value"] for row in rows_of(page, section)}


def made(tmp_path: Path, batches: list[bytes], *, name: str = "t-0") -> Path:
    mark_clean(tmp_path)
    return write_segment(tmp_path / name, 0, batches, interval_bytes=300)


@pytest.mark.parametrize("log", ["txn-0", "zstd-0", "compacted-0", "__consumer_offsets-0", "__cluster_metadata-0"])
def test_each_batch_has_the_values_of_kafkas_dump(log: str, golden: GoldenFactory) -> None:
    name = EVERYTHING["4.4"]
    text = (golden(name, "dump-clean") / f"{log}.txt").read_bytes().decode()
    base, compared = 0, 0
    for line in text.splitlines():
        if line.startswith("Dumping"):
            file = re.fullmatch(r"Dumping .*/(\d+)\.log", line)
            base = -1 if file is None else int(file[1])
        if not line.startswith("baseOffset") or base < 0 or compared > 40:
            continue
        dumped = dict(re.findall(r"(\w+): (\S+)", line))
        page = read_page(golden(name), url(log, base, int(dumped["position"])))
        header, facts = values_of(page), facts_of(page)
        for ours, theirs in (
            ("baseOffset", "baseOffset"),
            ("recordsCount", "count"),
            ("producerId", "producerId"),
            ("producerEpoch", "producerEpoch"),
            ("partitionLeaderEpoch", "partitionLeaderEpoch"),
            ("baseSequence", "baseSequence"),
            ("crc", "crc"),
        ):
            assert str(header[ours]) == dumped[theirs]
        assert str(facts["last_offset"]) == dumped["lastOffset"]
        assert str(facts["size"]) == dumped["size"]
        assert facts["codec"] == dumped["compresscodec"]
        assert facts["crc"] == "valid"
        assert len(rows_of(page, "records")) == min(20, int(dumped["count"]))
        assert not page.notes
        compared += 1
    assert compared >= 3


def test_records_have_their_bytes_and_fields(golden: GoldenFactory) -> None:
    page = read_page(golden(SCENARIOS), url("plain-0", 0, 0))
    record = rows_of(page, "records")[0]
    assert (record["offset"], record["byte"], record["size"]) == (0, 61, 41)
    assert (record["key"], record["value"]) == ("k195", "delta offset delta delta segme")
    fields = values_of(page, "record")
    assert fields["keyLength"] == 4
    assert fields["key"] == '"k195"'
    assert fields["value"] == '"delta offset delta delta" …'
    assert [row["name"] for row in rows_of(page, "attributes")] == [
        "compression",
        "timestamp type",
        "transactional",
        "control",
        "delete horizon",
        "unused",
    ]


def test_the_hex_view_has_all_bytes_with_their_fields(golden: GoldenFactory) -> None:
    path = golden(SCENARIOS) / "plain-0" / f"{0:020d}.log"
    shown = bytearray()
    names: list[str] = []
    number = pages = 1
    while number <= pages:
        page = read_page(golden(SCENARIOS), url("plain-0", 0, 0, f"?bytes.size=4&bytes.page={number}"))
        section = page_json(page)["sections"]["bytes"]
        pages, number = section["pages"], number + 1
        for row in section["rows"]:
            shown += bytes.fromhex(row["hex"])
            names += row["fields"]
    assert bytes(shown) == path.read_bytes()[: facts_of(page)["size"]]
    assert {"baseOffset", "recordsCount", "0.value", "0.headersCount"} <= set(names)


def test_decompressed_records_have_their_own_bytes(golden: GoldenFactory) -> None:
    root = golden(EVERYTHING["4.4"])
    with SegmentReader(LOCAL, root / "gzip-0", 0) as reader:
        position = next(row.position for row in reader.table().rows() if row.attributes & 7)
    page = read_page(root, url("gzip-0", 0, position))
    facts = facts_of(page)
    rows = rows_of(page, "decompressed")
    assert facts["decompressed_size"] > facts["size"]
    assert rows[0]["position"] == 0
    assert "0.length" in rows[0]["fields"]
    assert "compressed records" in rows_of(page, "bytes")[4]["fields"]
    assert [row["position"] for row in rows_of(page, "records")] == [None] * 20
    last = read_page(root, url("gzip-0", 0, position, f"?offset={facts['last_offset']}"))
    assert section_of(last, "record").title == f"Fields of record {facts['records'] - 1}"
    assert rows_of(last, "records")[-1]["offset"] == facts["last_offset"]


@pytest.mark.parametrize("log", ["v0-none-0", "v0-gzip-0", "v1-lz4-0", "v1-snappy-0"])
def test_old_formats(log: str, golden: GoldenFactory) -> None:
    with SegmentReader(LOCAL, golden(FORMATS) / log, 0) as reader:
        rows = list(reader.table().rows())[:5]
    for row in rows:
        page = read_page(golden(FORMATS), url(log, 0, row.position))
        facts = facts_of(page)
        assert facts["format"] == f"v{row.magic}"
        assert facts["crc"] == "valid"
        assert facts["last_offset"] == row.last_offset
        records = rows_of(page, "records")
        assert records[-1]["offset"] == row.last_offset or len(records) == 20
        assert not page.notes


def test_neighbours_are_linked(tmp_path: Path) -> None:
    batches = [plain(number * 3, 3) for number in range(20)]
    made(tmp_path, batches)
    size = len(batches[0])
    position: int | None = 0
    seen: list[int] = []
    while position is not None:
        facts = facts_of(read_page(tmp_path, url("t-0", 0, position)))
        assert facts["previous_position"] == (position - size if position else None)
        seen.append(position)
        position = facts["next_position"]
    assert seen == [number * size for number in range(20)]


def test_a_position_inside_a_batch_names_the_batch(tmp_path: Path) -> None:
    batches = [plain(number * 3, 3) for number in range(20)]
    made(tmp_path, batches)
    size = len(batches[0])
    for position in (1, size - 1, 7 * size + 5, 20 * size - 1):
        page = read_page(tmp_path, url("t-0", 0, position))
        facts = facts_of(page)
        assert facts["batch_position"] == position // size * size
        assert facts["batch_size"] == size
        assert f"byte {position % size} of that batch" in page.notes[0]
        assert page.links[0].url == url("t-0", 0, position // size * size)
    for position in (20 * size, 10**12):
        with pytest.raises(NotFoundError):
            read_page(tmp_path, url("t-0", 0, position))
    with pytest.raises(NotFoundError):
        read_page(tmp_path, url("t-0", 7, 0))


@pytest.mark.parametrize("kind", ["crc", "magic", "length", "records", "cut", "order"])
def test_the_positions_that_verify_reports_have_a_page(kind: str, tmp_path: Path) -> None:
    batches = [plain(number * 3, 3) for number in range(20)]
    size = len(batches[0])
    at = 9 * size
    data = bytearray(b"".join(batches))
    match kind:
        case "crc":
            data[at + 80] ^= 1
        case "magic":
            data[at + 16] = 9
        case "length":
            data[at + 8 : at + 12] = struct.pack(">i", 2)
        case "records":
            data[at + 61] = 0x7F
            data[at + 17 : at + 21] = struct.pack(">I", crc32c(bytes(data[at + 21 : at + size])))
        case "cut":
            del data[-9:]
            at = 19 * size
        case "order":
            data[at : at + 8] = struct.pack(">q", 1)
    path = made(tmp_path, batches)
    path.write_bytes(bytes(data))
    with SegmentReader(LOCAL, path.parent, 0) as reader:
        findings = check_log(reader, lambda _bytes: None, is_active=False).findings
    assert findings
    for finding in findings:
        assert finding.position is not None
        page = read_page(tmp_path, url("t-0", 0, finding.position))
        place = facts_of(page).get("batch_position", finding.position)
        page = read_page(tmp_path, url("t-0", 0, place))
        assert place == at
        if kind == "crc":
            assert facts_of(page)["crc"] == "does not match the bytes"
            assert len(rows_of(page, "records")) == 3
        elif kind != "order":
            assert page.notes
            assert values_of(page)["baseOffset"] == at // size * 3
    if kind in ("magic", "length"):
        assert facts_of(page)["next_position"] == at + size
        after = read_page(tmp_path, url("t-0", 0, at + size))
        assert "goes on here" in after.notes[0]
        assert facts_of(after)["base_offset"] == 30
        lost = read_page(tmp_path, url("t-0", 0, at + 5))
        assert facts_of(lost)["damage_position"] == at


def test_the_problem_of_a_record_has_its_position(tmp_path: Path) -> None:
    data = bytearray(plain(0, 3))
    second = 61 + (len(data) - 61) // 3
    data[second] = 0x7F
    made(tmp_path, [bytes(data)])
    page = read_page(tmp_path, url("t-0", 0, 0, "?record=1"))
    assert any(f"At position {second}, byte {second} of the batch" in note for note in page.notes)
    records = rows_of(page, "records")
    assert [row["problem"] is None for row in records] == [True, False]
    assert rows_of(page, "record")[0]["field"] == "length"


def test_hostile_text_is_escaped(tmp_path: Path) -> None:
    hostile = HOSTILE.encode()
    made(tmp_path, [batch(0, [hostile, b"\xed\xa0\x80", b"\xff" * 30], key=hostile)])
    with serving(tmp_path) as served:
        html = served.ready(url("t-0", 0, 0))
        found = served.ready(url("t-0", 0, 0) + ".json").json
    assert html.status == 200
    assert "<script>alert" not in html.text
    assert "\u202e" not in html.text
    assert "\0" not in html.text
    assert found["sections"]["records"]["rows"][0]["value"] == HOSTILE
    assert found["sections"]["records"]["rows"][1]["value"].startswith("0x")


def test_no_random_bytes_make_an_internal_error(tmp_path: Path) -> None:
    path = made(tmp_path, [plain(0, 2)])
    with serving(tmp_path) as served:
        for data in (b"\0" * 40, b"\xff" * 400, b"\0" * 16 + b"\2" + b"\x7f" * 200, bytes(range(256)) * 3, b"x"):
            path.write_bytes(data)
            for position in {0, min(1, len(data) - 1), len(data) - 1}:
                assert served.ready(url("t-0", 0, position)).status == 200


def test_the_crc_of_a_large_batch_is_computed_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_walk, "LARGE_BYTES", 100_000)
    monkeypatch.setattr(batch_module, "LARGE_BYTES", 100_000)
    big = b"x" * 3_000_000
    path = made(tmp_path, [plain(0, 2), batch(2, [big, b"end"]), plain(4, 1)])
    position = len(plain(0, 2))
    page = read_page(tmp_path, url("t-0", 0, position))
    assert facts_of(page)["crc"] == "valid"
    rows = rows_of(page, "records")
    assert [(row["value"], row["value_size"]) for row in rows] == [("x" * 256, 3_000_000), ("end", 3)]
    hexes = page_json(page)["sections"]["bytes"]
    assert hexes["total_rows"] > 187_000
    data = bytearray(path.read_bytes())
    data[position + 2_000_000] ^= 1
    path.write_bytes(bytes(data))
    assert facts_of(read_page(tmp_path, url("t-0", 0, position)))["crc"] == "does not match the bytes"


def test_secrets_of_the_metadata_are_hidden(golden: GoldenFactory) -> None:
    root = golden(EVERYTHING["4.4"])
    path = root / "__cluster_metadata-0" / f"{0:020d}.log"
    hidden = 0
    with SegmentReader(LOCAL, path.parent, 0) as reader:
        rows = list(reader.table().rows())
    for row in rows:
        page = read_page(root, url("__cluster_metadata-0", 0, row.position, "?value_format=base64&bytes.size=500"))
        text = json.dumps(page_json(page))
        hidden += "[hidden]" in text
        if "[hidden]" in text:
            assert "\\u00b7\\u00b7 \\u00b7\\u00b7" in text
    assert hidden >= 1


def test_unknown_parameters_are_refused(tmp_path: Path) -> None:
    made(tmp_path, [plain(0, 2)])
    with serving(tmp_path) as served:
        assert served.ready(url("t-0", 0, 0, "?record=x")).status == 400
        assert served.ready(url("t-0", 0, 0, "?key_format=x")).status == 400
        assert served.ready(url("t-0", 0, 0, "?bytes.size=5000")).status == 400
        assert served.ready(url("t-0", 0, 0, "?record=99&bytes.page=99")).status == 200
        assert served.get("/logs/0/t-0/segments/0/batches/x").status == 404
        assert served.get("/logs/0/t-0/segments/-1/batches/0").status == 404
