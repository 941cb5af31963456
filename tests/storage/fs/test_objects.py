"""Directories in object storage, read like local ones: a real S3 service, and fsspec's own stores."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from cli.runner import rows, run
from conftest import GoldenFactory
from golden_sets import SCENARIOS, unpack
from s3_server import put, s3_server
from spark.in_process import rows as spark_rows
from tidelog import open_directory, open_log
from tidelog.model import ConfigError, DirectoryError, FileMissingError, ReadOnlyError, StorageError
from tidelog.storage.fs import BY_PATH, LOCAL, UrlPath, path_of, read_whole

SOME = ("plain-0", "zstd-0", "txn-0", "empty-0", "__consumer_offsets-0", "__transaction_state-0")


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Return the address of a copied broker directory, and the directory."""
    directory = unpack(SCENARIOS, "unclean", tmp_path_factory.mktemp("scenarios") / "data")
    for partition in directory.glob("*-[0-9]"):
        if partition.name not in SOME:
            shutil.rmtree(partition)
    with s3_server() as environment, pytest.MonkeyPatch.context() as patch:
        for name, text in environment.items():
            patch.setenv(name, text)
        yield put(directory, "broker-1", environment), directory


def without_place(found: list[dict[str, object]], place: str) -> list[dict[str, object]]:
    parsed: list[dict[str, object]] = json.loads(json.dumps(found).replace(place, "PLACE"))
    return parsed


def test_an_address_is_a_path() -> None:
    root = path_of("s3://bucket/backup/")
    log = root / "t-0" / "0.log"
    assert isinstance(log, UrlPath)
    assert (str(log), log.name, str(log.parent)) == ("s3://bucket/backup/t-0/0.log", "0.log", "s3://bucket/backup/t-0")
    assert str(log.with_name("1.log")) == "s3://bucket/backup/t-0/1.log"
    assert log.absolute() == log.resolve() == pickle.loads(pickle.dumps(log)) == path_of(str(log))
    assert str(pickle.loads(pickle.dumps(log))) == str(log)
    assert str(path_of("simplecache::s3://bucket/backup")) == "simplecache::s3://bucket/backup"
    assert str(log.relative_to(root)) == "t-0/0.log"
    assert type(path_of("/var/lib/kafka")) is type(Path())


def test_what_a_store_says_of_its_objects(s3: tuple[str, Path]) -> None:
    address, directory = s3
    root = path_of(address)
    assert BY_PATH.list_names(root) == LOCAL.list_names(directory)
    assert BY_PATH.list_directories(root) == LOCAL.list_directories(directory)
    assert BY_PATH.list_sizes(root / "plain-0") == LOCAL.list_sizes(directory / "plain-0")
    name = next(name for name in BY_PATH.list_names(root / "plain-0") if name.endswith(".log"))
    here, there = directory / "plain-0" / name, root / "plain-0" / name
    assert read_whole(BY_PATH, there) == here.read_bytes()
    with BY_PATH.open(there) as file:
        assert file.pread(10, 5) == here.read_bytes()[5:15]
        assert file.pread(10, file.size) == b""
        buffer = bytearray(20)
        assert file.pread_into(buffer, file.size - 7) == 7
        assert buffer[:7] == here.read_bytes()[-7:]
    stat = BY_PATH.stat(there)
    assert (stat.size, stat.is_dir) == (here.stat().st_size, False)
    assert stat.mtime_ms > 1_600_000_000_000
    assert BY_PATH.stat(root / "plain-0").is_dir
    assert BY_PATH.exists(there)
    assert not BY_PATH.exists(root / "missing")
    assert BY_PATH.lock_holder(root / ".lock") is None


def test_what_is_not_there_or_not_written(s3: tuple[str, Path]) -> None:
    root = path_of(s3[0])
    for missing in (lambda: BY_PATH.open(root / "missing"), lambda: BY_PATH.list_names(root / "missing")):
        with pytest.raises(FileMissingError, match="s3://backups/broker-1/missing"):
            missing()
    with pytest.raises(StorageError, match="it is a directory"):
        BY_PATH.open(root / "plain-0")
    for write in (BY_PATH.lock, BY_PATH.make_dir, BY_PATH.remove, lambda path: BY_PATH.open(path, create=True)):
        with pytest.raises(ReadOnlyError, match="does not write there"):
            write(root / "new")
    with pytest.raises(ReadOnlyError, match="does not write there"):
        open_directory(s3[0])
    with pytest.raises(DirectoryError, match="not a Kafka log directory"):
        open_directory(f"{s3[0]}/plain-0", read_only=True)


def test_libraries_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"gs:// cannot be read: .*gcsfs"):
        BY_PATH.exists(path_of("gs://bucket/backup"))
    with pytest.raises(ConfigError, match="nonsense"):
        BY_PATH.exists(path_of("nonsense://bucket/backup"))
    monkeypatch.setitem(__import__("sys").modules, "fsspec.core", None)
    with pytest.raises(ConfigError, match=r"install tidelog\[objects\]"):
        BY_PATH.exists(path_of("s3://bucket/backup"))


def test_other_stores(golden: GoldenFactory) -> None:
    """A store in memory works too, although it keeps no directories."""
    fsspec.filesystem("memory").put(str(golden(SCENARIOS)), "/backup", recursive=True)
    backup, original = "memory://backup", golden(SCENARIOS)
    with open_directory(backup, read_only=True) as there, open_directory(original, read_only=True) as here:
        assert there.partitions() == here.partitions()
        assert sum(1 for _ in there.log("plain", 0).records()) == sum(1 for _ in here.log("plain", 0).records()) > 0


def test_the_python_api(s3: tuple[str, Path]) -> None:
    address, directory = s3
    with open_log(f"{address}/zstd-0", read_only=True) as there, open_log(directory / "zstd-0", read_only=True) as here:
        assert [(one.offset, one.value) for one in there.records()] == [
            (one.offset, one.value) for one in here.records()
        ]


@pytest.mark.parametrize("command", [("verify",), ("count",), ("info",), ("records", "plain-0"), ("offsets",)])
def test_commands(s3: tuple[str, Path], command: tuple[str, ...]) -> None:
    address, directory = s3
    name, *others = command
    code = int(name == "verify")  # the checkpoints name the partitions that were left out
    there, here = (rows(name, place, *others, code=code) for place in (address, directory))
    assert without_place(there, address) == without_place(here, str(directory))


def test_a_dump_and_no_repair(s3: tuple[str, Path]) -> None:
    address, directory = s3
    name = f"plain-0/{0:020d}.log"
    there, here = rows("dump", f"{address}/{name}"), rows("dump", directory / name)
    assert without_place(there, address) == without_place(here, str(directory))
    for change in ("recover", "compact"):
        assert "does not write there" in run(change, address, "--apply", code=3).stderr


@pytest.mark.parametrize("mode", ["records", "batches", "segments", "index", "producers", "transactions", "groups"])
def test_the_tables_of_spark(s3: tuple[str, Path], mode: str) -> None:
    address, directory = s3
    given = {"subscribePattern": ".*", "mode": mode}
    there, here = (spark_rows(place, **given) for place in (address, directory))
    for row in (*there, *here):
        row.pop("modified", None)
        assert str(row.pop("logDir", directory)) in (address, str(directory))
    assert there == here
