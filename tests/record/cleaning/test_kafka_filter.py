"""Cleaned batches compared with Kafka 4.1's own ``MemoryRecords.filterTo``: the same bytes, or the same refusal.

Data that is compressed again has the same records, headers and batch boundaries.
"""

from __future__ import annotations

import base64
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import pytest

from legacy_build import MessageFields, build_set
from real_kafka.java import run_java
from record.cleaning.dirty_batches import CODECS, NOW, batch_of
from tidelog.kernel import BatchRetention, ColumnDecoder, OffsetMap, scan_batches
from tidelog.model import Header, InvalidRecordError, Record, TimestampType
from tidelog.record.build import BatchFields, build_empty_batch, build_end_transaction_batch
from tidelog.record.cleaning import CleanedBatches, CleaningRules, clean_batches
from tidelog.record.control import EndTransactionMarker
from tidelog.record.decode import decode_columns, iter_records

pytestmark = pytest.mark.kafka

KEYS = [None, b"", b"a", b"b", b"c", bytes(300)]
TIMES = [0, 1, 1000, NOW, NOW + 70, -1]


class Clean(NamedTuple):
    data: bytes
    rules: CleaningRules
    latest_offset: int
    keys: dict[bytes, int]
    fates: list[tuple[int, bool, bool]]

    @property
    def line(self) -> str:
        words = (
            self.rules.now_ms,
            self.rules.delete_retention_ms,
            str(self.rules.retain_legacy_deletes).lower(),
            self.latest_offset,
            ",".join(f"{base64.b64encode(key).decode()}:{offset}" for key, offset in self.keys.items()) or "-",
            ",".join("".join(str(int(part)) for part in fate) for fate in self.fates),
            base64.b64encode(self.data).decode(),
        )
        return " ".join(map(str, words))

    def run(self) -> CleanedBatches | InvalidRecordError:
        offset_map = OffsetMap(24 * 1000, key=bytes(16))
        for key, offset in self.keys.items():
            offset_map.put(key, offset)
        offset_map.latest_offset = self.latest_offset
        retention, discard, ends = (np.array(column) for column in zip(*self.fates, strict=True))
        fates = BatchRetention(retention=retention.astype(np.uint8), discard=discard, ends_empty_transaction=ends)
        try:
            return clean_batches(self.data, scan_batches(self.data), fates, offset_map, self.rules)
        except InvalidRecordError as error:
            return error


def drawn_clean(random: Random) -> Clean:
    data = b""
    offset = random.choice([0, 7, 2**31, 2**40])
    fates = []
    for _ in range(random.randrange(1, 5)):
        drawn = random.choice([drawn_data, drawn_data, drawn_data, drawn_legacy, drawn_marker, drawn_empty])
        batches = drawn(random, offset)
        table = scan_batches(batches)
        data += batches
        offset = int(table.last_offset[-1]) + 1 + random.choice([0, 0, 3])
        for magic in table.magic.tolist():  # only transactions are discarded
            discard = magic == 2 and random.random() < 0.1
            fates.append((random.choice([0, 1, 1, 1, 2]), discard, random.random() < 0.3))
    first = int(scan_batches(data).base_offset[0])
    return Clean(
        data,
        CleaningRules(NOW, random.choice([0, 50, 86_400_000, 2**63 - 1]), random.random() < 0.5),
        random.choice([offset, offset, offset - 3, first]),
        {key: random.randrange(first, offset) for key in KEYS if key is not None and random.random() < 0.7},
        fates,
    )


def drawn_data(random: Random, offset: int) -> bytes:
    records = []
    base_offset = offset
    for _ in range(random.randrange(1, 7)):
        offset += random.choice([0, 0, 0, 1, 130])
        value = random.choice([None, b"", b"value", b"value", bytes(200)])
        headers = tuple(
            Header("name" * n, random.choice([None, b"", b"x" * 70])) for n in range(random.choice([0, 0, 2]))
        )
        time = random.choice(TIMES)
        records.append(Record(offset, time, TimestampType.CREATE, random.choice(KEYS), value, headers))
        offset += 1
    producer = random.choice([{}, {"producer_id": 5, "producer_epoch": 3, "base_sequence": 2**31 - 2}])
    if producer and random.random() < 0.5:
        producer |= {"transactional": True}
    log_append = random.random() < 0.2
    return batch_of(
        *records,
        base_offset=base_offset,
        codec=random.choice(["none", *CODECS]),
        timestamp_type=TimestampType.LOG_APPEND if log_append else TimestampType.CREATE,
        append_time_ms=random.choice([NOW, 1000]) if log_append else None,
        delete_horizon_ms=random.choice([None, None, None, NOW - 1, NOW, NOW + 1, 0]),
        leader_epoch=random.choice([-1, 0, 9]),
        last_offset=offset + random.choice([-1, -1, 4]),
        **producer,
    )


def drawn_legacy(random: Random, offset: int) -> bytes:
    magic = random.randrange(2)
    keys = [random.choice(KEYS) for _ in range(random.randrange(1, 5))]
    return bytes(
        build_set(
            [MessageFields(random.choice(TIMES), key, random.choice([None, b"v" * 30])) for key in keys],
            magic=magic,
            base_offset=offset,
            codec=random.choice([0, 0, 1, 2, 3]),
            append_time_ms=random.choice([None, NOW]) if magic else None,
        )
    )


def drawn_marker(random: Random, offset: int) -> bytes:
    marker = EndTransactionMarker(committed=random.random() < 0.5, coordinator_epoch=2)
    return bytes(
        build_end_transaction_batch(
            marker,
            base_offset=offset,
            timestamp=random.choice(TIMES),
            producer_id=5,
            producer_epoch=3,
            leader_epoch=random.choice([-1, 4]),
        )
    )


def drawn_empty(random: Random, offset: int) -> bytes:
    fields = BatchFields(producer_id=6, producer_epoch=0, base_sequence=9, transactional=random.random() < 0.5)
    return bytes(build_empty_batch(base_offset=offset, last_offset=offset + 4, max_timestamp=1000, fields=fields))


def opened(data: bytes) -> object:
    """Return the records, and the facts of the headers without sizes and CRCs."""
    table = scan_batches(data)
    rows = [row._replace(position=0, size=0, crc=0) for row in table.rows()]
    return rows, [
        found for part in decode_columns(data, table, ColumnDecoder(sequences=True)) for found in iter_records(part)
    ]


def test_drawn_batches_against_kafka(tmp_path: Path) -> None:
    random = Random(11)
    cleans = [drawn_clean(random) for _ in range(1500)]
    file = tmp_path / "cleans"
    file.write_text("".join(clean.line + "\n" for clean in cleans))
    answers = run_java("FilterBatches", file, heap_mib=512).splitlines()
    refused = same_bytes = 0
    for clean, answer in zip(cleans, answers, strict=True):
        words, ours = answer.split(" "), clean.run()
        where = (clean, answer, ours)
        if words[0] == "refused":
            assert isinstance(ours, InvalidRecordError), where
            refused += 1
            continue
        assert isinstance(ours, CleanedBatches), where
        kafkas = base64.b64decode(words[1])
        if kafkas == bytes(ours.data):
            same_bytes += 1
        else:
            assert opened(kafkas) == opened(bytes(ours.data)), where
            assert scan_batches(kafkas).codec.any(), where
        read, kept, invalid, bytes_read = map(int, words[2:])
        stats = ours.stats
        assert (stats.records_read, stats.records_kept, stats.invalid_records) == (read, kept, invalid), where
        assert stats.bytes_read == bytes_read
    assert same_bytes > len(cleans) / 2
    assert 0 < refused < len(cleans) / 5
