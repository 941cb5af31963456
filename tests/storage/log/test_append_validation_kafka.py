"""Appends compared with Kafka 4.1's own ``LogValidator``: the same bytes and facts, or the same refused records.

Data that is compressed again has the same records, header and batch boundaries. ``OTHERWISE`` gives the differences and
their reasons.
"""

from __future__ import annotations

import base64
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from append_cases import NOW, all_appends, drawn_append
from old_log_format import append_in_format
from real_kafka.java import run_java
from tidelog.kernel import ColumnDecoder, scan_batches
from tidelog.model import InvalidRecordError, Refusal, TidelogError
from tidelog.record.decode import decode_columns, iter_records
from tidelog.storage.log.append.append_rules import AppendRules
from tidelog.storage.log.append.append_validation import Validated
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.producer import AppendOrigin

FIRST = 100
EPOCH = 5
TARGETS = {"producer": 0, "uncompressed": 0, "gzip": 6, "snappy": 0, "lz4": 9, "zstd": 3}
"""The codecs with their levels."""
LIMITS = ((2**63 - 1, 3_600_000), (1000, 1000))
COUNTED = (Refusal.MAGIC, Refusal.OFFSET, Refusal.SEQUENCE, Refusal.NO_KEY)
OURS_TO_NAME = (
    "IllegalArgumentException",
    "KafkaException",
    "NullPointerException",
    "UnsupportedOperationException",
)
"""Kafka gives the unspecific UNKNOWN_SERVER_ERROR here. We refuse the append too, with a reason."""


class Case(NamedTuple):
    name: str
    data: bytes
    target: str
    compacted: bool
    log_append_time: bool
    limits: tuple[int, int]
    magic: int
    origin: AppendOrigin

    @property
    def line(self) -> str:
        words = (
            self.target,
            TARGETS[self.target],
            str(self.compacted).lower(),
            self.magic,
            "LogAppendTime" if self.log_append_time else "CreateTime",
            *self.limits,
            EPOCH,
            self.origin.name,
            FIRST,
            NOW,
            base64.b64encode(self.data).decode(),
        )
        return " ".join(map(str, words))

    @property
    def rules(self) -> AppendRules:
        level: dict[str, Any] = (
            {f"compression_{self.target}_level": TARGETS[self.target]} if TARGETS[self.target] else {}
        )
        config = LogConfig(
            compression_type=self.target,
            cleanup_policy=frozenset({"compact" if self.compacted else "delete"}),
            message_timestamp_type="LogAppendTime" if self.log_append_time else "CreateTime",
            message_timestamp_before_max_ms=self.limits[0],
            message_timestamp_after_max_ms=self.limits[1],
            **level,
        )
        return AppendRules.of(config)


OTHERWISE = {
    "inner offsets": "uncompressed offsets that do not count up are refused, where Kafka stores them",
    "inner offsets below 0": "the same; and they are no offsets",
    "no records": "a coordinator's batch without records",
    "count 0": "a coordinator's batch without records",
    "range": "a coordinator's offset range that is not its count",
}
"""Appends that Kafka accepts from some origin and we refuse."""


def cases(magic: int) -> list[Case]:
    strict = (False, True)
    origins = (AppendOrigin.CLIENT, AppendOrigin.COORDINATOR)
    found = [
        Case(name, data, target, compacted, log_append_time, LIMITS[compacted], magic, origin)
        for (name, data), target, compacted, log_append_time, origin in product(
            all_appends().items(), TARGETS, strict, strict, origins
        )
    ]
    return found if magic == 2 else [case for case in found if case.origin is AppendOrigin.CLIENT]


def append(case: Case) -> Validated | TidelogError:
    try:
        return append_in_format(
            bytearray(case.data),
            case.rules,
            case.magic,
            case.origin,
            now_ms=NOW,
            first_offset=FIRST,
            leader_epoch=EPOCH,
        )
    except TidelogError as error:
        return error


def opened(data: bytes) -> object:
    """Return the records, and the facts of the headers without sizes and CRCs."""
    table = scan_batches(data)
    rows = [row._replace(position=0, size=0, crc=0) for row in table.rows()]
    decoder = ColumnDecoder(sequences=True)
    return rows, [found for part in decode_columns(data, table, decoder) for found in iter_records(part)]


def compare_stored(words: list[str], ours: Validated) -> None:
    kafkas = base64.b64decode(words[1])
    if kafkas != ours.batches:
        assert opened(kafkas) == opened(bytes(ours.batches))
        assert ours.stats.converted_records, "nothing was compressed anew"
        assert scan_batches(kafkas).codec.any(), "nothing was compressed"
    next_offset, max_timestamp, _, temporary_bytes, converted = words[2:]
    assert ours.last_offset + 1 == int(next_offset)
    assert ours.max_timestamp == int(max_timestamp)
    assert ours.stats == (int(temporary_bytes), int(converted))


def compare_refused(words: list[str], ours: TidelogError) -> None:
    kind, code, indexes, counts = words[1:]
    if kind in OURS_TO_NAME:
        return
    assert ours.code == int(code)
    errors = ours.record_errors if isinstance(ours, InvalidRecordError) else ()
    assert (",".join(str(one.batch_index) for one in errors) or "-") == indexes
    magic, offset, sequence, checksums, no_key = map(int, counts.split(","))
    if isinstance(ours, InvalidRecordError):
        assert [ours.refusals.count(refusal) for refusal in COUNTED] == [magic, offset, sequence, no_key]
    assert bool(checksums) == (type(ours).__name__ == "CorruptRecordError")


@pytest.mark.kafka
@pytest.mark.parametrize("magic", [2, 1, 0])
def test_appends_against_kafka(magic: int, tmp_path: Path) -> None:
    listed = cases(magic)
    stored, refused, otherwise = compare(listed, tmp_path / "appends")
    assert stored > len(listed) / 4
    assert refused > len(listed) / 4
    assert otherwise < len(listed) / 15


@pytest.mark.kafka
def test_drawn_appends_against_kafka(tmp_path: Path) -> None:
    random = Random(7)
    listed = [
        Case(
            str(number),
            drawn_append(random),
            random.choice(list(TARGETS)),
            random.random() < 0.1,
            random.random() < 0.3,
            random.choice([(2**63 - 1, 2**63 - 1), *LIMITS]),
            random.choice([2, 2, 2, 1, 0]),
            AppendOrigin.CLIENT,
        )
        for number in range(3000)
    ]
    stored, refused, otherwise = compare(listed, tmp_path / "appends")
    assert min(stored, refused) > len(listed) / 5
    assert otherwise == 0


def compare(listed: list[Case], file: Path) -> tuple[int, int, int]:
    """Return how many were stored by both, refused by both, and treated differently."""
    file.write_text("".join(case.line + "\n" for case in listed))
    answers = run_java("ValidateAppend", file, heap_mib=512).splitlines()
    stored = refused = otherwise = 0
    for case, answer in zip(listed, answers, strict=True):
        words, ours = answer.split(" "), append(case)
        where = (case._replace(data=b""), answer, ours)
        if (words[0] == "ok") != isinstance(ours, Validated):
            if isinstance(ours, Validated):
                assert case.name.endswith("control"), where  # Kafka cannot recompress a marker; we keep it unchanged
            else:
                assert any(case.name.endswith(f" {text}") for text in OTHERWISE), where
            otherwise += 1
        elif isinstance(ours, Validated):
            compare_stored(words, ours)
            stored += 1
        else:
            compare_refused(words, ours)
            refused += 1
    return stored, refused, otherwise
