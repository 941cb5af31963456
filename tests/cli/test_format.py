"""``tidelog format``: its plan, its result, its refusals. tests/real_kafka compares it with Kafka's tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.runner import rows, run
from server.harness import running_broker
from server.security.logins import log_in
from tidelog.protocol.errors import ErrorCode
from tidelog.storage.checkpoint import uuid_from_text

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(
        f"process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\nlog.dirs={tmp_path}/data\n"
    )
    return path


def test_a_plan_writes_nothing_and_what_is_applied_is_served(tmp_path: Path, file: Path) -> None:
    asked = ("format", "-s", "-t", CLUSTER_ID, "-c", file, "-f", "group.version=0")
    (planned,) = rows(*asked)
    assert planned["condition"] == "new"
    assert planned["directory_id"] is None
    assert not (tmp_path / "data").exists()
    (done,) = rows(*asked, "--apply")
    assert done["condition"] == "formatted"
    assert done["files"] == planned["files"]
    assert all((tmp_path / "data" / name).exists() for name in done["files"])
    with running_broker(tmp_path / "data") as home:
        assert home.call(lambda: home.broker.metadata.image.cluster_id) == CLUSTER_ID
        features = home.call(lambda: home.broker.metadata.finalized_features)
        assert features == {
            "metadata.version": 33,
            "eligible.leader.replicas.version": 1,
            "share.version": 2,
            "streams.version": 1,
            "transaction.version": 2,
            "kraft.version": 1,
        }


def test_a_link_in_the_place_of_an_unfinished_file_is_not_written_through(tmp_path: Path, file: Path) -> None:
    data, other = tmp_path / "data", tmp_path / "other"
    metadata = data / "__cluster_metadata-0"
    metadata.mkdir(parents=True)
    other.write_text("somebody else's")
    for name in (f"__cluster_metadata-0/{0:020}-{0:010}.checkpoint.part", "meta.properties.tmp"):
        (data / name).symlink_to(other)
    run("format", "-s", "-t", CLUSTER_ID, "-c", file, "--apply")
    assert other.read_text() == "somebody else's"
    assert not any(path.is_symlink() for path in data.rglob("*"))


def test_users_are_told_by_name_alone(file: Path) -> None:
    result = run("format", "-s", "-t", CLUSTER_ID, "-c", file, "-S", "SCRAM-SHA-256=[name=alice,password=secret]")
    assert "alice (SCRAM-SHA-256)" in result.output
    assert "secret" not in result.output


def test_a_user_from_the_start_logs_in(tmp_path: Path, file: Path) -> None:
    user = "SCRAM-SHA-512=[name=alice,password=secret]"
    run("format", "-s", "-t", CLUSTER_ID, "-c", file, "-S", user, "--apply")
    settings = {
        "listeners": "SASL://127.0.0.1:0",
        "listener_security_protocol_map": "SASL:SASL_PLAINTEXT",
        "inter_broker_listener_name": "SASL",
        "sasl_mechanism_inter_broker_protocol": "SCRAM-SHA-512",
        "sasl_enabled_mechanisms": "SCRAM-SHA-512",
        "sasl_jaas_config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
    }
    with running_broker(tmp_path / "data", **settings) as home:
        for password, error in (("secret", ErrorCode.NONE), ("guess", ErrorCode.SASL_AUTHENTICATION_FAILED)):
            with home.client() as client:
                assert log_in(client, "SCRAM-SHA-512", "alice", password).error_code == error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--no-initial-controllers"], "use --standalone"),
        (["-s", "-I", "1@a:1:JEXY6aqzQY-32P5TStzaFg"], "exclude each other"),
        (
            ["-I", "1@a:1:JEXY6aqzQY-32P5TStzaFg,2@b:1:MvDxzVmcRsaTz33bUuRU6A"],
            "must be the only controller, but 2 are named",
        ),
        (["-I", "2@a:1:JEXY6aqzQY-32P5TStzaFg"], "the voter is node 2, but the file's node.id is 1"),
        (["-I", "1@a:1"], "is not ID@HOST:PORT:DIRECTORY-ID"),
        (["-I", "1@a:1:x"], "--initial-controllers"),
        (["-s", "-f", "group.version"], "is not NAME=LEVEL"),
        (["-s", "-S", "secret"], "it is not MECHANISM="),
        (["-s", "-S", "SCRAM-SHA-256=[name=a,salt=!,password=secret]"], "salt is not base64"),
        (["-s", "-S", "SCRAM-SHA-256=[name=a,secret]"], "each part must be"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, file: Path, arguments: list[str], words: str) -> None:
    told = run("format", "-t", CLUSTER_ID, "-c", file, *arguments, "--apply", code=2).stderr
    assert words in " ".join(told.split())
    assert "secret" not in told
    assert not (tmp_path / "data").exists()


def test_a_broker_with_zookeeper_formats_its_directories_itself(tmp_path: Path) -> None:
    file = tmp_path / "zookeeper.properties"
    file.write_text(f"zookeeper.connect=localhost:2181\nbroker.id=1\nlog.dirs={tmp_path / 'data'}\n")
    told = run("format", "-t", CLUSTER_ID, "-c", file, "--apply", code=2).stderr
    assert "which formats its log directories itself: run tidelog serve" in " ".join(told.split())
    assert not (tmp_path / "data").exists()


def test_a_new_id_each_time() -> None:
    first, second = (run("random-uuid").stdout.strip() for _ in range(2))
    assert first != second
    assert not first.startswith("-")
    assert uuid_from_text(first) is not None
    assert uuid_from_text(rows("random-uuid")[0]["uuid"]) is not None
