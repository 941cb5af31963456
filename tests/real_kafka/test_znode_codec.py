"""Kafka 3.9 reads the znodes that our codec writes, and writes the same bytes."""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode, b64encode
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from real_kafka.java import KRAFT_3, java_command
from server.metadata.zookeeper.znode_values import DECODERS, VALUES, encoded

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

KINDS = ("topic", "state", "config", "broker", "feature", "producer ids", "acls", "cluster id")


def drawn(kind: str, count: int) -> list[Any]:
    """Return values of that kind, the same ones in each run."""
    values: list[Any] = []

    @seed(7)
    @settings(max_examples=count, database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def draw(data: st.DataObject) -> None:
        values.append(data.draw(VALUES[kind]))

    draw()
    return values


def test_kafka_writes_the_same_bytes() -> None:
    cases = [(kind, encoded(kind, value)) for kind in KINDS for value in drawn(kind, 60)]
    lines = [json.dumps({"kind": kind, "data": b64encode(data).decode()}) for kind, data in cases]
    command = java_command("Znodes", release=KRAFT_3)
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, encoding="utf-8", timeout=300)
    answers = done.stdout.splitlines()
    assert len(answers) == len(cases), done.stderr
    assert len(cases) > 300
    for (kind, data), answer in zip(cases, answers, strict=True):
        assert answer != "refused", (kind, data)
        check_same(kind, data, b64decode(answer))


def check_same(kind: str, ours: bytes, theirs: bytes) -> None:
    """Compare the bytes. The time of a registration is Kafka's own, and ACLs have no sequence."""
    if kind == "broker":
        one, other = json.loads(ours), json.loads(theirs)
        assert list(one) == list(other)
        assert {**one, "timestamp": ""} == {**other, "timestamp": ""}
    elif kind == "acls":
        assert DECODERS[kind]("/p", ours) == sorted(DECODERS[kind]("/p", theirs))
    elif kind == "config":  # keys of one bucket depend on the sequence in which Kafka has read them
        assert DECODERS[kind]("/p", ours).encode() == theirs
    else:
        assert ours == theirs, (ours.decode(), theirs.decode())
