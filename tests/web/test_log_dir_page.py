"""The page of a log directory: identity, small files, and the next start log by log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.runner import rows
from conftest import GoldenFactory
from golden_sets import CLUSTER, EVERYTHING, SCENARIOS, UNCLEAN_ELECTION, ZOOKEEPER
from log_maker import mark_clean, plain, write_checkpoint, write_segment
from tidelog.model import ConfigError
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.directory_state import LOCK_FILE
from tidelog.web.page import Page
from tidelog.web.page_json import page_json
from tidelog.web.sources import NotFoundError
from web.harness import check_picture, facts_of, read_page, rows_of, section_of, serving

HOSTILE = "<img src=x onerror=alert(1)>"


def logs(page: Page) -> dict[str, dict[str, object]]:
    return {row["name"]: row for row in rows_of(page, "start")}


@pytest.mark.parametrize("kind", ["clean", "unclean"])
def test_the_start_is_that_of_the_recover_command(golden: GoldenFactory, kind: str) -> None:
    path = golden(SCENARIOS, kind)
    page = read_page(path, "/logs/0")
    found = logs(page)
    expected = {row["name"]: row for row in rows("recover", path)}
    for name, row in found.items():
        assert (row["recover_segments"], row["recover_bytes"]) == (
            expected[name]["segments"],
            expected[name]["read_bytes"],
        )
        assert row["leftovers"] == len(expected[name]["leftovers"])
    assert facts_of(page)["condition"] == kind
    assert found["compacted-0"]["cleaned"] == 2360
    assert found["trimmed-0"]["log_start"] == 777
    assert facts_of(page)["recover_bytes"] == sum(int(str(row["recover_bytes"])) for row in found.values())
    files = [file for file in path.rglob("*") if file.is_file() and file.parent != path]
    assert facts_of(page)["bytes"] == sum(file.stat().st_size for file in files)
    check_picture(section_of(page, "start"))


def test_identity_and_marker(golden: GoldenFactory) -> None:
    path = golden(EVERYTHING["4.4"])
    facts = facts_of(read_page(path, "/logs/0"))
    [info] = rows("info", path, "empty")
    assert (facts["cluster_id"], facts["node_id"]) == (info["cluster_id"], info["node_id"])
    assert facts["directory_id"] == info["directory_id"]
    marker = json.loads((path / ".kafka_cleanshutdown").read_text())
    assert facts["broker_epoch"] == marker["brokerEpoch"]
    assert facts["shutdown_at"] == (path / ".kafka_cleanshutdown").stat().st_mtime_ns // 1_000_000
    assert facts["version"] == 1
    assert facts["written_at"]


def test_checkpoints(golden: GoldenFactory) -> None:
    path = golden(SCENARIOS)
    found = {row["file"]: row for row in rows_of(read_page(path, "/logs/0"), "checkpoints")}
    for name, row in found.items():
        assert row["entries"] == int((path / name).read_text().splitlines()[1])
        assert row["without_log"] == 0
        assert row["written"] == (path / name).stat().st_mtime_ns // 1_000_000
        assert row["problem"] is None


def test_other_brokers(golden: GoldenFactory) -> None:
    brokers = golden(CLUSTER, UNCLEAN_ELECTION)
    paths = [brokers / f"broker{number}" for number in (1, 2, 3)]
    assert facts_of(read_page(paths, "/logs/1"))["node_id"] == 2
    disks = sorted(path for path in golden(ZOOKEEPER).iterdir() if path.is_dir())
    assert facts_of(read_page(disks, "/logs/0"))["version"] == 0


def test_damaged_small_files(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [plain(0)])
    (tmp_path / "meta.properties").write_text(f"version=1\nnode.id={HOSTILE}\n")
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n5\n")
    (tmp_path / "recovery-point-offset-checkpoint").write_text(HOSTILE)
    (tmp_path / ".kafka_cleanshutdown").write_text("{")
    page = read_page(tmp_path, "/logs/0")
    assert any("meta.properties" in note for note in page.notes)
    found = {row["file"]: row for row in rows_of(page, "checkpoints")}
    assert "line 2 says 5 entries" in found["cleaner-offset-checkpoint"]["problem"]
    assert "treated as empty" in found["recovery-point-offset-checkpoint"]["problem"]
    assert found["log-start-offset-checkpoint"]["problem"] == "missing"
    assert facts_of(page)["node_id"] is None
    with serving(tmp_path) as served:
        assert HOSTILE not in served.ready("/logs/0").text


def test_small_files_that_are_directories_or_links_to_themselves(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [plain(0)])
    for name in ("meta.properties", "cleaner-offset-checkpoint", "recovery-point-offset-checkpoint"):
        (tmp_path / name).mkdir()
    for name in ("log-start-offset-checkpoint", ".kafka_cleanshutdown"):
        (tmp_path / name).symlink_to(name)
    page = read_page(tmp_path, "/logs/0")
    assert any("it is a directory" in note and "meta.properties" in note for note in page.notes)
    problems = {row["file"]: row["problem"] for row in rows_of(page, "checkpoints")}
    assert "it is a directory" in problems["cleaner-offset-checkpoint"]
    assert "it is a directory" in problems["recovery-point-offset-checkpoint"]
    assert "too many symbolic links" in problems["log-start-offset-checkpoint"]
    for url in ("/", "/cleaner", "/compare", "/groups", "/transactions"):
        read_page(tmp_path, url)


def test_entries_without_a_log(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [plain(0)])
    write_checkpoint(tmp_path, "recovery-point-offset-checkpoint", {"t-0": 10, "gone-7": 3})
    found = {row["file"]: row for row in rows_of(read_page(tmp_path, "/logs/0"), "checkpoints")}
    row = found["recovery-point-offset-checkpoint"]
    assert (row["entries"], row["without_log"]) == (2, 1)


def test_other_names(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [plain(0)])
    mark_clean(tmp_path)
    (tmp_path / HOSTILE.replace("/", "")).mkdir()
    (tmp_path / "x.tmp").write_bytes(bytes(3))
    (tmp_path / "t-1").write_bytes(b"a file with the name of a log")
    page = read_page(tmp_path, "/logs/0")
    found = {row["name"]: row for row in rows_of(page, "files")}
    assert found["x.tmp"]["meaning"].startswith("an unfinished write")
    assert "refuses to start" in found[HOSTILE]["meaning"]
    assert "brokers ignore it" in found["t-1"]["meaning"]
    assert "t-0" not in found
    first = rows_of(page, "start")[0]
    assert (first["name"], first["action"], first["url"]) == (HOSTILE, "refuse", None)
    with serving(tmp_path) as served:
        html = served.ready("/logs/0").text
    assert HOSTILE not in html
    assert '<a href="/logs/0/t-0">' in html


def test_a_held_directory(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [plain(0)])
    mark_clean(tmp_path)
    lock = LOCAL.lock(tmp_path / LOCK_FILE)
    try:
        page = read_page(tmp_path, "/logs/0")
    finally:
        lock.release()
    assert facts_of(page)["lock_holder"] is not None
    assert "If it were killed" in section_of(page, "start").text
    assert logs(page)["t-0"]["action"] == "recover"


def test_filters(golden: GoldenFactory) -> None:
    path = golden(SCENARIOS)
    found = logs(read_page(path, "/logs/0?name=plain&action=load"))
    assert found.keys() == {"plain-0", "plain-1", "plain-2"}
    assert logs(read_page(path, "/logs/0?action=recover")).keys() == {"__cluster_metadata-0"}
    sizes = [row["bytes"] for row in rows_of(read_page(path, "/logs/0?start.sort=-bytes"), "start")]
    assert sizes == sorted(sizes, reverse=True)
    for query in ("action=fly", "start.sort=x"):
        with pytest.raises(ConfigError):
            read_page(path, f"/logs/0?{query}")
    with pytest.raises(NotFoundError):
        read_page(path, "/logs/7")


def test_json_has_everything(golden: GoldenFactory) -> None:
    found = json.loads(json.dumps(page_json(read_page(golden(SCENARIOS), "/logs/0"))))
    assert found["sections"].keys() == {"start", "checkpoints", "files"}
