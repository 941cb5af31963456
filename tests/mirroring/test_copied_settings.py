"""A copy takes over the settings of a topic. A setting that Kafka 4 refuses is changed or left out."""

from __future__ import annotations

import pytest

from tidelog.mirroring.target.copied_settings import CopiedSettings

SAME = {"retention.ms": "86400000", "cleanup.policy": "compact,delete", "internal.segment.bytes": "8192"}


def test_settings_are_the_same() -> None:
    assert CopiedSettings.of(SAME) == CopiedSettings(texts=SAME, notes=[])


@pytest.mark.parametrize(
    "name",
    [
        "min.insync.replicas",
        "leader.replication.throttled.replicas",
        "remote.storage.enable",
        "local.retention.ms",
        "message.format.version",
        "unknown.key",
    ],
)
def test_settings_without_a_meaning_in_a_copy_are_left_out(name: str) -> None:
    assert CopiedSettings.of({**SAME, name: "1"}) == CopiedSettings(texts=SAME, notes=[])


@pytest.mark.parametrize(
    ("name", "text", "nearest"),
    [
        ("segment.bytes", "8192", "1048576"),
        ("segment.bytes", "1048575", "1048576"),
        ("min.cleanable.dirty.ratio", "1.5", "1"),
        ("compression.zstd.level", "23", "22"),
    ],
)
def test_a_number_outside_the_range_becomes_the_nearest_one(name: str, text: str, nearest: str) -> None:
    copied = CopiedSettings.of({**SAME, name: text})
    assert copied.texts == {**SAME, name: nearest}
    (note,) = copied.notes
    assert note.startswith(f"{name} is {nearest} instead of {text} (Invalid value {text} for configuration {name}: ")
    assert CopiedSettings.of(copied.texts) == CopiedSettings(texts=copied.texts, notes=[])


@pytest.mark.parametrize(
    ("name", "text"), [("compression.type", "brotli"), ("segment.ms", "soon"), ("cleanup.policy", "keep")]
)
def test_another_refused_value_is_left_out(name: str, text: str) -> None:
    copied = CopiedSettings.of({**SAME, name: text} if name not in SAME else {name: text})
    assert name not in copied.texts
    (note,) = copied.notes
    assert note.startswith(f"{name}={text} is left out (Invalid value {text} for configuration {name}: ")
