"""The JSON forms of ``--at-offsets``, and the refusal of others."""

from __future__ import annotations

import pytest

from tidelog.model import ConfigError, TopicPartition
from tidelog.storage.manager.snapshot.offsets_file import parse_offsets

TWO = {TopicPartition("a-b", 0): 5, TopicPartition("a-b", 12): 0}


@pytest.mark.parametrize(
    "text",
    [
        '{"a-b-0": 5, "a-b-12": 0}',
        '{"a-b": {"0": 5, "12": 0}}',
        '[{"topic": "a-b", "partition": 0, "offset": 5, "time": "x"}, {"topic": "a-b", "partition": 12, "offset": 0}]',
        '{"topic": "a-b", "partition": 0, "offset": 5}\n\n{"topic": "a-b", "partition": 12, "offset": 0}\n',
        '{"a-b-0": 5, "a-b": {"12": 0, "0": 5}, "c-1": null}',
    ],
)
def test_forms(text: str) -> None:
    assert parse_offsets(text) == TWO


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no JSON"),
        ("5", "neither a JSON object nor a list"),
        ('{"a": 5}', "'a' is no TOPIC-PARTITION"),
        ('{"a-0": -1}', "the offset of a-0 is -1"),
        ('{"a-0": true}', "the offset of a-0 is True"),
        ('{"a-0": "5"}', "the offset of a-0 is '5'"),
        ('{"a-0": 5, "a": {"0": 6}}', "a-0 has two offsets: 5 and 6"),
        ('[{"topic": "a", "offset": 5}]', "needs topic, partition and offset"),
        ("[[]]", "needs topic, partition and offset"),
        ('{"a-0": 5}\n{"a-1"', "no JSON"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_offsets(text)
