"""``tidelog format`` and ``kafka-storage format``: the same arguments make the same files, or both refuse them."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from cli.runner import run
from real_kafka.java import NEWEST
from real_kafka.kafka_tools import KafkaTools
from tidelog.kernel import scan_batches
from tidelog.record.control import ControlType
from tidelog.server.metadata.kraft.batches import read_batches
from tidelog.storage.checkpoint import META_PROPERTIES_FILE, MetaProperties
from tidelog.storage.fs import LOCAL

pytestmark = pytest.mark.kafka

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
DIRECTORY_ID = "JEXY6aqzQY-32P5TStzaFg"
PROPERTIES = """
process.roles=broker,controller
node.id=3
listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
"""
STATIC = PROPERTIES + "controller.quorum.voters=3@localhost:9093\n"
DYNAMIC = PROPERTIES + "controller.quorum.bootstrap.servers=localhost:9093\n"
CONTROLLERS = f"3@localhost:9093:{DIRECTORY_ID}"
SALT = "MWx2NHBkbnc0ZndxN25vdGN4bTB5eTFrN3E="
SALTED = (
    f'SCRAM-SHA-512=[name=bob,iterations=8192,salt="{SALT}",'
    'saltedpassword="mT0yyUUxnlJaC99HXgRTSYlbuqa4FSGtJCJfTMvjYCE="]'
)
WITH_SALT = f"SCRAM-SHA-256=[name=alice,password=alice-secret,salt={SALT}]"


@pytest.fixture(scope="module")
def tools() -> Iterator[KafkaTools]:
    """Run ``kafka-storage`` of the newest release, which is in Kafka's broker and not in its tools."""
    with KafkaTools("", release=NEWEST) as running:
        yield running


def properties_in(home: Path, text: str) -> Path:
    """Write the properties of two log directories below ``home``."""
    home.mkdir(exist_ok=True)
    path = home / "server.properties"
    path.write_text(f"{text}log.dirs={home}/one,{home}/two\n")
    return path


def files_of(home: Path) -> dict[str, bytes]:
    """Return the files without values that differ in each run: times of writing and random ids."""
    found = {}
    for path in sorted(home.rglob("*")):
        if path.is_file() and path.name not in ("server.properties", ".lock"):
            data = path.read_bytes()
            is_snapshot = path.suffix == ".checkpoint"
            name = path.relative_to(home).as_posix()
            found[name] = timeless(data) if is_snapshot else dateless(data)
    for directory in ("one", "two"):
        properties = MetaProperties.read(LOCAL, home / directory / META_PROPERTIES_FILE)
        if properties is not None and properties.directory_id is not None:
            found = {name: data.replace(properties.directory_id.bytes, bytes(16)) for name, data in found.items()}
    return found


def dateless(data: bytes) -> bytes:
    """Remove dates and directory ids from the text of a ``meta.properties``."""
    lines = data.decode().splitlines()
    return "\n".join(line for line in lines if not line.startswith(("#", "directory.id="))).encode()


def timeless(data: bytes) -> bytes:
    """Set checksums and timestamps in the bytes of a snapshot to zero."""
    masked = bytearray(data)
    header = next(read_batches(data)).control_records[0]
    assert header.type is ControlType.SNAPSHOT_HEADER
    for row in scan_batches(data).rows():
        at = row.position
        masked[at + 17 : at + 21] = bytes(4)
        masked[at + 27 : at + 43] = bytes(16)
    return bytes(masked).replace(struct.pack(">q", header.fields["lastContainedLogTimestamp"]), bytes(8))


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        (STATIC, []),
        (DYNAMIC, ["--standalone"]),
        (DYNAMIC, ["-s", "--release-version", "3.8"]),
        (STATIC, ["-r", "3.3"]),
        (DYNAMIC, ["--initial-controllers", CONTROLLERS]),
        (DYNAMIC, ["-s", "--add-scram", SALTED, "-S", WITH_SALT]),
        (DYNAMIC, ["-s", "--release-version", "3.9"]),
        (STATIC, ["--release-version", "3.7-IV2", "--feature", "transaction.version=1"]),
        (STATIC, ["-r", "4.0", "-f", "eligible.leader.replicas.version=1", "-f", "group.version=0"]),
        (STATIC, ["--feature", "metadata.version=20", "--feature", "share.version=1"]),
    ],
)
def test_the_same_arguments_make_the_same_files(
    tmp_path: Path, tools: KafkaTools, text: str, arguments: Sequence[str]
) -> None:
    homes = tmp_path / "kafka", tmp_path / "own"
    theirs, ours = (properties_in(home, text) for home in homes)
    told = tools.run("kafka-storage", "format", "-t", CLUSTER_ID, "-c", str(theirs), *arguments)
    assert told.code == 0, told
    run("format", "-t", CLUSTER_ID, "-c", ours, *arguments)
    assert not files_of(homes[1]), "a plan writes nothing"
    run("format", "-t", CLUSTER_ID, "-c", ours, *arguments, "--apply")
    assert files_of(homes[1]) == files_of(homes[0])


def test_only_what_is_not_formatted_is_formatted_where_that_is_asked_for(tmp_path: Path, tools: KafkaTools) -> None:
    homes = tmp_path / "kafka", tmp_path / "own"
    theirs, ours = (properties_in(home, DYNAMIC) for home in homes)
    formatted = ["-s", "-t", CLUSTER_ID, "-c"]
    assert tools.run("kafka-storage", "format", *formatted, str(theirs)).code == 0
    run("format", *formatted, ours, "--apply")
    kept = (homes[1] / "one" / META_PROPERTIES_FILE).read_bytes()
    for home in homes:
        shutil.rmtree(home / "two")
    assert "already formatted" in tools.run("kafka-storage", "format", *formatted, str(theirs)).err
    assert "already formatted" in run("format", *formatted, ours, "--apply", code=3).stderr
    assert tools.run("kafka-storage", "format", *formatted, str(theirs), "-g").code == 0
    run("format", *formatted, ours, "--apply", "--ignore-formatted")
    assert files_of(homes[1]) == files_of(homes[0])
    assert (homes[1] / "one" / META_PROPERTIES_FILE).read_bytes() == kept


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        (DYNAMIC, [], "--standalone"),
        (STATIC, ["--feature", "kraft.version=1"], "kraft.version"),
        (DYNAMIC, ["-s", "--feature", "kraft.version=0"], "kraft.version"),
        (STATIC, ["--standalone"], "You cannot specify controller.quorum.voters"),
        (STATIC, ["--initial-controllers", CONTROLLERS], "You cannot specify controller.quorum.voters"),
        (STATIC, ["--feature", "no.such.feature=1"], "Unsupported feature: no.such.feature"),
        (STATIC, ["--feature", "group.version=2"], "No feature:group.version with feature level 2"),
        (STATIC, ["-r", "3.9", "-f", "eligible.leader.replicas.version=1"], "depends on metadata.version level 23"),
        (STATIC, ["-r", "4.0", "-f", "metadata.version=25"], "Use --release-version instead"),
        (STATIC, ["-r", "3.4", "-S", SALTED], "SCRAM is only supported"),
        (STATIC, ["-r", "9.9"], "9.9"),
        (STATIC, ["-S", "SCRAM-MD5=[name=a,password=secret]"], "SCRAM-MD5"),
        (STATIC, ["-S", "SCRAM-SHA-256=[name=a,password=secret,iterations=1]"], "4096"),
        (STATIC, ["-S", "SCRAM-SHA-256=[password=secret]"], "name"),
        (STATIC, ["-S", "SCRAM-SHA-256=[name=a]"], "password"),
        (STATIC, ["-S", "SCRAM-SHA-256=[name=a,saltedpassword=YWJj]"], "salt"),
    ],
)
def test_what_kafka_refuses_is_refused(
    tmp_path: Path, tools: KafkaTools, text: str, arguments: Sequence[str], words: str
) -> None:
    homes = tmp_path / "kafka", tmp_path / "own"
    theirs, ours = (properties_in(home, text) for home in homes)
    told = tools.run("kafka-storage", "format", "-t", CLUSTER_ID, "-c", str(theirs), *arguments)
    assert told.code == 1, told
    assert words in told.err + told.out
    refused = run("format", "-t", CLUSTER_ID, "-c", ours, *arguments, "--apply", code=2).stderr
    assert words in refused
    assert "secret" not in refused
    assert not files_of(homes[1])
