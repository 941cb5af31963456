"""The pages of transactions, compared with the command's rows and with the markers that kafka-dump-log prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cli.runner import rows as command_rows
from cluster_maker import ClusterMaker, MadeReplica
from conftest import GoldenFactory
from coordinator_maker import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_COMMIT,
    State,
    state_record,
    write_states,
)
from golden_sets import EVERYTHING, FLIGHTS, SCENARIOS, manifest
from log_maker import BASE_TIME, batch, data, mark_clean, marker, plain, write_segment
from tidelog.inspect.transaction_rows import FIELDS
from tidelog.model import ConfigError
from tidelog.storage.producer.snapshot import format_snapshot
from tidelog.web.svg.lane_runs import MOST_ITEMS
from web.asgi_client import asgi_client
from web.harness import check_picture, facts_of, read_page, rows_of, section_of

NEWEST = EVERYTHING["4.4"]
JUDGED = ("state", "timeout_ms", "known_epoch", "verdict", "hangs", "reason", "transactional_id")
MARKER = re.compile(r"^\| offset: (\d+) .*endTxnMarker: (COMMIT|ABORT)", re.MULTILINE)


def dumped_markers(golden: GoldenFactory, set_name: str, log: str) -> dict[str, set[int]]:
    """Return the offsets of the markers in kafka-dump-log's text, by their type."""
    found: dict[str, set[int]] = {"COMMIT": set(), "ABORT": set()}
    for offset, type_ in MARKER.findall((golden(set_name, "dump-clean") / f"{log}.txt").read_text()):
        found[type_].add(int(offset))
    return found


def spans_by_state(path: Path, url: str) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for row in rows_of(read_page(path, f"{url}?spans.size=1000"), "spans"):
        found.setdefault(row["state"], set()).add(row["last_offset"])
    return found


@pytest.mark.parametrize(("set_name", "kind"), [(NEWEST, "clean"), (NEWEST, "unclean"), (SCENARIOS, "clean")])
def test_the_open_transactions_are_those_of_the_command(golden: GoldenFactory, set_name: str, kind: str) -> None:
    path = golden(set_name, kind)
    (expected,) = command_rows("transactions", path)
    page = read_page(path, "/transactions")
    (found,) = rows_of(page, "open")
    assert {name: found[name] for name in (*FIELDS, *JUDGED)} == {name: expected[name] for name in (*FIELDS, *JUDGED)}
    assert (found["log_dir"], found["log"]) == ("0", "txn-0")
    assert (facts_of(page)["open"], facts_of(page)["hanging"]) == (1, 0)
    check_picture(section_of(page, "open"))


def test_coordinators_ids_and_the_newest_ended(golden: GoldenFactory) -> None:
    page = read_page(golden(NEWEST), "/transactions")
    states = {row["transactional_id"]: (row["state"], row["awaits"]) for row in rows_of(page, "ids")}
    assert states == {"writer-0": ("CompleteCommit", None), "writer-1": ("Ongoing", "txn: 0")}
    (ended,) = rows_of(page, "ended")
    assert (ended["transactional_id"], ended["outcome"], ended["took_ms"]) == ("writer-0", "committed", 2)
    logs = {row["log"]: (row["ids"], row["Ongoing"], row["CompleteCommit"]) for row in rows_of(page, "coordinators")}
    assert logs == {"__transaction_state-0": (1, 0, 1), "__transaction_state-1": (1, 1, 0)}
    only = rows_of(read_page(golden(NEWEST), "/transactions?id=WRITER-1"), "ids")
    assert [row["transactional_id"] for row in only] == ["writer-1"]
    assert rows_of(read_page(golden(NEWEST), "/transactions?state=Empty"), "ids") == []


@pytest.mark.parametrize(
    ("set_name", "log"), [(NEWEST, "txn-0"), (NEWEST, "txn-1"), (SCENARIOS, "txn-0"), (FLIGHTS, "flights-eos-0")]
)
def test_the_transactions_of_a_log_are_those_of_its_markers(golden: GoldenFactory, set_name: str, log: str) -> None:
    url = f"/logs/0/{log}/transactions"
    markers = dumped_markers(golden, set_name, log)
    found = spans_by_state(golden(set_name), url)
    assert (found["committed"], found["aborted"]) == (markers["COMMIT"], markers["ABORT"])
    page = read_page(golden(set_name), url)
    reads = manifest(set_name)[log]
    facts = facts_of(page)
    assert facts["aborted"] == len(markers["ABORT"])
    assert facts["last_stable"] == reads["read_committed"]["high"]
    assert facts["log_end"] == reads["read_uncommitted"]["high"]
    assert facts["open"] == len(found.get("open", ())) == (facts["last_stable"] < facts["log_end"])
    check_picture(section_of(page, "transactions_by_offset"))


def test_what_an_open_transaction_holds_back(golden: GoldenFactory) -> None:
    page = read_page(golden(NEWEST), "/logs/0/txn-0/transactions")
    dump = (golden(NEWEST, "dump-clean") / "txn-0.txt").read_text()
    records = map(int, re.findall(r"^\| offset: (\d+) (?!.*endTxnMarker)", dump, re.MULTILINE))
    sizes = re.findall(r"^baseOffset: (\d+) .* size: (\d+) ", dump, re.MULTILINE)
    facts = facts_of(page)
    assert facts["held_back_records"] == sum(offset >= 96 for offset in records)
    assert facts["held_back_bytes"] == sum(int(size) for offset, size in sizes if int(offset) >= 96)
    picture = section_of(page, "transactions_by_offset").picture
    assert picture is not None
    assert {"mark": "last stable offset", "offset": 96} in [dict(item) for item in picture.items]


# --- made logs ---


def hanging(root: Path) -> Path:
    """Write ``t-0`` with a transaction that its coordinator has ended elsewhere."""
    write_segment(root / "t-0", 0, [plain(0, 10), data(10, 3), plain(13, 20)])
    write_states(root, [State(7, COMPLETE_COMMIT, started=BASE_TIME)])
    return root


def test_a_hanging_transaction_says_how_to_end_it(tmp_path: Path) -> None:
    page = read_page(hanging(tmp_path), "/transactions")
    (row,) = rows_of(page, "open")
    assert (row["verdict"], row["held_back_records"], row["last_stable"]) == ("hanging", 23, 10)
    assert row["why"].startswith("hanging: its coordinator has no transaction with this partition: CompleteCommit")
    notes = " ".join(page.notes)
    assert "1 transactions hang, or are suspected to" in notes
    assert "abort --topic t --partition 0 --start-offset 10" in notes
    assert "abort --topic t --partition 0 --start-offset 10" in " ".join(
        read_page(tmp_path, "/logs/0/t-0/transactions").notes
    )


def test_the_limit_decides_without_coordinators(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [data(0, 3)])
    page = read_page(tmp_path, "/transactions")
    (row,) = rows_of(page, "open")
    assert row["verdict"] == "suspected"
    assert "No partition of __transaction_state is here" in " ".join(page.notes)
    (row,) = rows_of(read_page(tmp_path, "/transactions?limit=9999999d"), "open")
    assert row["verdict"] == "open"
    assert any(
        "No partition of __transaction_state is here" in note for note in read_page(tmp_path, "/transactions").notes
    )
    for query in ("limit=15", "state=Odd", "open.sort=odd"):
        with pytest.raises(ConfigError):
            read_page(tmp_path, f"/transactions?{query}")


def test_a_replica_that_lacks_the_marker_does_not_count(tmp_path: Path) -> None:
    maker = ClusterMaker(tmp_path)
    ended = [data(0, 3), marker(3, committed=True)]
    maker.add(1, is_clean=False, t_0=MadeReplica(segments={0: ended[:1]}))
    maker.add(2, is_clean=False, t_0=MadeReplica(segments={0: ended}))
    maker.add(3, is_clean=False, u_0=MadeReplica(segments={0: [data(0, 1)]}))
    page = read_page(maker.paths.values(), "/transactions")
    assert [(row["log"], row["log_dir"]) for row in rows_of(page, "open")] == [("u-0", "2")]
    assert any(note.startswith("1 transactions are open only in replicas") for note in page.notes)


def test_transactions_across_the_borders_of_the_shown_part(tmp_path: Path) -> None:
    """A transaction surrounds 2,500 batches. The newest 2,000 batches and the 501 before them are two parts."""
    inside = [plain(offset, 1) for offset in range(1, 2500)]
    write_segment(tmp_path / "t-0", 0, [data(0), *inside, marker(2500, committed=True)], interval_bytes=4096)
    newest = read_page(tmp_path, "/logs/0/t-0/transactions")
    assert rows_of(newest, "spans") == []  # only the marker is here, and no file lists committed transactions
    (link,) = section_of(newest, "transactions_by_offset").links
    assert link.title == "Earlier batches"
    earlier = read_page(tmp_path, f"/logs/0/t-0/transactions{link.url}")
    (row,) = rows_of(earlier, "spans")
    assert (row["state"], row["first_offset"], row["last_offset"], row["is_partial"]) == ("committed", 0, 0, True)
    assert [link.title for link in section_of(earlier, "transactions_by_offset").links] == [
        "Later batches",
        "Newest batches",
    ]


def test_an_aborted_transaction_is_known_beyond_the_shown_part(tmp_path: Path) -> None:
    inside = [plain(offset, 1) for offset in range(1, 2500)]
    write_segment(tmp_path / "t-0", 0, [data(0), *inside, marker(2500, committed=False)], interval_bytes=4096)
    for query in ("", "?end=501"):
        (row,) = rows_of(read_page(tmp_path, f"/logs/0/t-0/transactions{query}"), "spans")
        assert (row["state"], row["first_offset"], row["last_offset"]) == ("aborted", 0, 2500)


def test_a_picture_of_many_transactions_has_few_items(tmp_path: Path) -> None:
    batches = []
    for number in range(900):
        producer_id = 1 + number % 60
        batches += [
            data(2 * number, producer_id=producer_id),
            marker(2 * number + 1, number % 2 == 0, producer_id=producer_id),
        ]
    write_segment(tmp_path / "t-0", 0, batches, interval_bytes=4096)
    page = read_page(tmp_path, "/logs/0/t-0/transactions?spans.size=1000")
    section = section_of(page, "transactions_by_offset")
    check_picture(section)
    assert section.picture is not None
    items: list[dict[str, Any]] = [dict(item) for item in section.picture.items if "lane" in item]
    assert len(items) <= MOST_ITEMS
    assert sum(item["committed"] for item in items) == sum(item["aborted"] for item in items) == 450
    assert max(item["lane"] for item in items) == 39
    assert len(rows_of(page, "spans")) == 900


# --- damage and hostile data ---


def test_a_damaged_log_does_not_hide_the_others(tmp_path: Path) -> None:
    hanging(tmp_path)
    broken = [data(0, producer_id=5), batch(1, [b"x"], producer_id=5), data(2, producer_id=6)]
    write_segment(tmp_path / "u-0", 0, broken)
    page = read_page(tmp_path, "/transactions")
    assert [row["log"] for row in rows_of(page, "open")] == ["t-0"]
    (unread,) = rows_of(page, "unread")
    assert unread["log"] == "u-0"
    assert "appends outside of it" in unread["error"]
    own = read_page(tmp_path, "/logs/0/u-0/transactions")
    assert facts_of(own)["open"] == 2
    assert facts_of(own)["held_back_records"] is None
    assert any("appends outside of it" in note for note in own.notes)


def test_damaged_bytes_are_left_out_of_the_picture(tmp_path: Path) -> None:
    log = write_segment(tmp_path / "t-0", 0, [data(0), marker(1, False), plain(2, 5), data(7), marker(8, False)])
    (log.parent / f"{0:020d}.snapshot").write_bytes(format_snapshot([]))
    mark_clean(tmp_path)
    damaged = bytearray(log.read_bytes())
    damaged[len(data(0)) + len(marker(1, False)) + 70] ^= 1
    log.write_bytes(damaged)
    page = read_page(tmp_path, "/logs/0/t-0/transactions")
    assert {row["last_offset"] for row in rows_of(page, "spans")} == {1, 8}
    assert any("the CRC of a batch does not match" in note for note in page.notes)


def test_records_that_cannot_be_decoded_are_counted(tmp_path: Path) -> None:
    batches = [state_record(0, State(1, ONGOING)), batch(1, [b"\0\0"], key=b"\0\x63"), batch(2, [b"\0"], key=b"\0\0")]
    write_segment(tmp_path / "__transaction_state-0", 0, batches)
    page = read_page(tmp_path, "/transactions")
    (log,) = rows_of(page, "coordinators")
    assert (log["undecoded"], log["first_undecoded"]) == (2, 1)
    assert "2 records of __transaction_state could not be decoded." in page.notes


def test_hostile_ids(tmp_path: Path) -> None:
    names = ["", "..", "<script>alert(1)</script>", "\u202eoof", "a\nb", "x" * 5000]
    states = [State(number, PREPARE_COMMIT, (0,), name=name, started=2**62) for number, name in enumerate(names)]
    write_states(tmp_path, [*states, State(99, COMPLETE_ABORT, name="ended", started=BASE_TIME)])
    write_segment(tmp_path / "t-0", 0, [data(number, producer_id=number) for number in range(len(names))])
    with asgi_client(tmp_path, wait_seconds=60) as client:
        html = client.ready("/transactions")
        assert html.status == 200
        assert "<script>alert" not in html.text
        assert "\u202e" not in html.text
        rows = client.ready("/transactions.json").json["sections"]["open"]["rows"]
        assert len(rows) == len(names)
        assert max(len(row["transactional_id"]) for row in rows) < 700
        assert client.ready("/logs/0/t-0/transactions").status == 200
