"""``tidelog config``: rows, tables, origins, options and exit codes. No output contains a password."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from cli.runner import rows, run
from tidelog.config.broker_keys import BROKER_KEYS
from tidelog.config.topic_keys import TOPIC_KEYS


@pytest.fixture
def server(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(
        "node.id=1\nlog.dirs=/var/lib/kafka\nlog.retention.hours=2\ndelegation.token.secret.key=swordfish\n"
    )
    return path


def test_a_topics_setting() -> None:
    (row,) = rows("config", "retention.ms")
    assert row["doc"].startswith("Delete segments")
    del row["doc"]
    assert row == {
        "key": "retention.ms",
        "kind": "topic",
        "value": 604_800_000,
        "type": "LONG",
        "default": 604_800_000,
        "valid": "[-1,...]",
        "importance": "medium",
        "update": "cluster-wide",
        "used": True,
        "origin": "default",
        "origin_key": "log.retention.hours",
        "file": None,
        "line": None,
        "synonyms": ["log.retention.ms", "log.retention.minutes", "log.retention.hours"],
    }
    text = run("config", "retention.ms").stdout
    for line in (
        "retention.ms: a setting of topics",
        "value            604800000 (7 days)",
        "from             log.retention.hours, default",
        "allowed          at least -1",
        "default set by   log.retention.ms, else log.retention.minutes, else log.retention.hours",
        "can change       at run time",
        "in tidelog       has effect",
    ):
        assert line in text


def test_where_a_value_comes_from(server: Path) -> None:
    def origin(*arguments: object) -> tuple[object, ...]:
        (row,) = rows("config", "retention.ms", "--file", server, *arguments)
        return row["value"], row["origin"], row["origin_key"], row["file"], row["line"]

    assert origin() == (7_200_000, "file", "log.retention.hours", "server.properties", 3)
    override = ("--override", "log.retention.minutes=1")
    assert origin(*override) == (60_000, "override", "log.retention.minutes", None, None)
    assert origin(*override, "--topic-config", "retention.ms=5") == (5, "topic", "retention.ms", None, None)
    text = run("config", "log.retention.ms", "log.dirs", "--file", server).stdout
    assert "not set; log.retention.hours decides: 2" in text
    assert "from         log.retention.hours, server.properties:3" in text
    assert "from         server.properties:2" in text


def test_a_name_of_both_kinds_and_one_of_a_listener(server: Path) -> None:
    assert [row["kind"] for row in rows("config", "compression.type")] == ["broker", "topic"]
    (row,) = rows("config", "listener.name.inside.num.network.threads", "--file", server)
    assert (row["value"], row["origin_key"]) == (3, "num.network.threads")
    setting = ("--override", "listener.name.inside.num.network.threads=7")
    (row,) = rows("config", "listener.name.inside.num.network.threads", *setting)
    assert (row["value"], row["origin"]) == (7, "override")


def test_what_differs_from_the_defaults(server: Path) -> None:
    assert rows("config") == []
    assert "Every key has its default value" in run("config").stdout
    found = rows("config", "--file", server, "--topic-config", "segment.ms=9")
    assert [(row["key"], row["kind"]) for row in found] == [
        ("delegation.token.secret.key", "broker"),
        ("log.dirs", "broker"),
        ("log.retention.hours", "broker"),
        ("node.id", "broker"),
        ("retention.ms", "topic"),
        ("segment.ms", "topic"),
    ]
    text = run("config", "--file", server).stdout
    assert "Known to Kafka, without effect in tidelog: delegation.token.secret.key." in text
    assert "A Kafka broker does not start without controller.listener.names and process.roles." in text


def test_a_topics_own(server: Path) -> None:
    own = ("--topic-config", "retention.ms=9", "--topic-config", "min.insync.replicas=2")
    text = run("config", "local.retention.ms", *own).stdout
    assert "value            -2" in text
    assert "which is         9" in text
    assert "The topic sets {min.insync.replicas=2, retention.ms=9}." in text


def test_all(server: Path) -> None:
    assert len(rows("config", "--all")) == len(BROKER_KEYS) + len(TOPIC_KEYS)
    table = list(csv.DictReader(io.StringIO(run("config", "--all", "--csv").stdout)))
    assert {row["key"] for row in table} == BROKER_KEYS.keys() | TOPIC_KEYS.keys()
    assert "log.cleaner.io.max.bytes.per.second" in run("config", "--all").stdout


def test_passwords_are_not_shown(server: Path) -> None:
    for form in ((), ("--json",), ("--jsonl",), ("--csv",)):
        for keys in ((), ("delegation.token.secret.key",), ("--all",)):
            shown = run("config", *keys, "--file", server, *form).output
            assert "swordfish" not in shown
            assert "[hidden]" in shown


def test_unknown_keys_of_a_file_are_findings(server: Path) -> None:
    with server.open("a") as file:
        file.write("log.retension.ms=4\n")
    text = run("config", "--file", server, code=1).stdout
    assert "log.retension.ms is not a key of Kafka 4.4; did you mean log.retention.ms? (server.properties:5)" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["retenton.ms"], "retenton.ms is not a key of Kafka 4.4; did you mean retention.ms?"),
        (["zookeeper.connect"], "zookeeper.connect has no effect: Kafka 4 removed it"),
        (["--override", "log.dirs"], "--override is not KEY=VALUE"),
        (["--topic-config", "=1"], "--topic-config is not KEY=VALUE"),
        (
            ["--override", "log.roll.hours=0"],
            "Invalid value 0 for configuration log.roll.hours: Value must be",
        ),
        (["--topic-config", "segment.bytes=1000"], "segment.bytes: Value must be at least 1048576"),
        (["--topic-config", "log.dirs=x"], "Unknown topic config name: log.dirs"),
        (
            ["--override", "delegation.token.secret.key=swordfish", "--override", "log.dirs="],
            "must not be empty",
        ),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    result = run("config", *arguments, code=2)
    assert message in result.stderr
    assert "swordfish" not in result.output
