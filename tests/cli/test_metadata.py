"""``tidelog metadata``: the records of a log directory's metadata log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli.runner import rows, run
from conftest import GoldenFactory
from golden_sets import FORMATS, KRAFT_SETS, footprint, manifest
from server.metadata.left_directory import left
from tidelog.record.internal_records.schema import ZERO_UUID
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.controller.configs import config_record
from tidelog.server.metadata.image import ConfigResource
from tidelog.server.metadata.metadata_record import MetadataRecord

EVERYTHING = [
    MetadataRecord(
        "UserScramCredentialRecord",
        {
            "name": "alice",
            "mechanism": 1,
            "salt": b"its salt",
            "storedKey": b"its stored key",
            "serverKey": b"its server key",
            "iterations": 8192,
        },
    ),
    MetadataRecord(
        "AccessControlEntryRecord",
        {
            "id": ZERO_UUID,
            "resourceType": 2,
            "resourceName": "ord",
            "patternType": 4,
            "principal": "User:alice",
            "host": "*",
            "operation": 3,
            "permissionType": 3,
        },
    ),
    MetadataRecord(
        "DelegationTokenRecord",
        {
            "owner": "User:alice",
            "requester": "User:alice",
            "renewers": ["User:bob"],
            "issueTimestamp": 1,
            "maxTimestamp": 3,
            "expirationTimestamp": 2,
            "tokenId": "a token",
        },
    ),
    MetadataRecord(
        "ClientQuotaRecord",
        {
            "entity": [{"entityType": "user", "entityName": "alice"}, {"entityType": "client-id", "entityName": None}],
            "key": "producer_byte_rate",
            "value": 1024.0,
            "remove": False,
        },
    ),
    config_record(ConfigResource(ResourceType.TOPIC, "there"), "retention.ms", "5"),
    config_record(ConfigResource(ResourceType.BROKER, ""), "log.cleaner.threads", "2"),
    config_record(ConfigResource(ResourceType.BROKER, "1"), "listener.name.x.ssl.keystore.password", "hunter2"),
    config_record(ConfigResource(ResourceType.BROKER, "1"), "nobody.knows.this", "hunter2"),
]


@pytest.mark.parametrize("kind", ["clean", "unclean"])
@pytest.mark.parametrize("set_name", KRAFT_SETS)
def test_of_directories_that_kafka_wrote(golden: GoldenFactory, set_name: str, kind: str) -> None:
    directory = golden(set_name, kind)
    before = footprint(directory)
    found = rows("metadata", directory)
    assert footprint(directory) == before
    partitions = {row["name"] for row in found if row["kind"] == "partition"}
    assert {name for name in partitions if not name.startswith("__")} == {
        path.name for path in directory.iterdir() if path.is_dir() and not path.name.startswith("__")
    }
    assert partitions >= set(manifest(set_name))
    (voter,) = (row for row in found if row["kind"] == "quorum")
    assert (voter["name"], voter["fields"]["kraft_version"], voter["fields"]["leader_id"]) == ("1", 0, 1)
    assert "metadata.version" in run("metadata", directory).stdout


@pytest.mark.parametrize("settings", [{}, {"metadata.log.max.record.bytes.between.snapshots": "1"}])
def test_every_kind_has_its_rows_and_no_secret_is_among_them(tmp_path: Path, settings: dict[str, str]) -> None:
    left(tmp_path, *EVERYTHING, settings=settings)
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows("metadata", tmp_path):
        found.setdefault(row["kind"], []).append({"name": row["name"], **row["fields"]})
    assert found["user"] == [{"name": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 8192}]
    (entry,) = found["acl"]
    assert [entry[name] for name in ("name", "permission", "operation", "resource_type", "resource", "pattern")] == [
        "User:alice",
        "allow",
        "read",
        "topic",
        "ord",
        "prefixed",
    ]
    assert found["token"][0]["owner"] == "User:alice"
    (quota,) = found["quota"]
    assert (quota["name"], quota["key"], quota["value"]) == (
        "client-id <default>, user alice",
        "producer_byte_rate",
        1024,
    )
    configs = {(row["name"], row["key"]): row["value"] for row in found["config"]}
    assert configs["topic there", "retention.ms"] == "5"
    assert configs["broker <default>", "log.cleaner.threads"] == "2"
    assert configs["broker 1", "listener.name.x.ssl.keystore.password"] == "[hidden]"
    assert configs["broker 1", "nobody.knows.this"] == "[hidden]"
    assert [row["name"] for row in found["topic"]] == ["there"]
    assert found["broker"][0]["listeners"] == ["PLAINTEXT://localhost:9092"]
    for form in ([], ["--jsonl"], ["--csv"]):
        shown = run("metadata", tmp_path, *form).stdout
        assert not [secret for secret in ("hunter2", "its salt", "its stored key", "its server key") if secret in shown]


def test_one_kind_alone(tmp_path: Path) -> None:
    left(tmp_path)
    assert {row["kind"] for row in rows("metadata", tmp_path, "--kind", "topic", "-k", "feature")} == {
        "topic",
        "feature",
    }


def test_a_directory_that_has_no_metadata_is_named(golden: GoldenFactory, tmp_path: Path) -> None:
    left(tmp_path)
    result = run("metadata", golden(FORMATS), tmp_path, "--json", code=3)
    assert "there is no cluster metadata here" in result.stderr
    assert '"there"' in result.stdout
