"""Dumps of ``__remote_log_metadata`` (KIP-405): payloads as text in one or more batches, and errors that end a dump."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from cli.runner import run
from log_maker import batch
from tidelog.inspect.dump import KafkaFormatOptions, PayloadDecoder, dump_kafka_format
from tidelog.record.internal_records.frames import encode_framed
from tidelog.record.internal_records.remote_tables import MESSAGES

PARTITION = {"name": "foo", "id": "Mkr1rk9yGxCQeEKL8FSvcg", "partition": 0}
DELETE = encode_framed(
    MESSAGES["RemotePartitionDeleteMetadataRecord"],
    {"topicIdPartition": PARTITION, "brokerId": 0, "eventTimestampMs": 17, "remotePartitionDeleteState": 0},
    0,
)
UPDATE = encode_framed(
    MESSAGES["RemoteLogSegmentMetadataUpdateRecord"],
    {
        "remoteLogSegmentId": {"topicIdPartition": PARTITION, "id": "sW-XEJYW5iq60_3EDycjpQ"},
        "brokerId": 0,
        "eventTimestampMs": 17,
        "customMetadata": bytes(4),
        "remoteLogSegmentState": 1,
    },
    0,
)
DELETE_TEXT = (
    "RemotePartitionDeleteMetadata{topicPartition=Mkr1rk9yGxCQeEKL8FSvcg:foo-0, state=DELETE_PARTITION_MARKED,"
    " eventTimestampMs=17, brokerId=0}"
)
UPDATE_TEXT = (
    "RemoteLogSegmentMetadataUpdate{remoteLogSegmentId=RemoteLogSegmentId{topicIdPartition=Mkr1rk9yGxCQeEKL8FSvcg:foo-0,"
    " id=sW-XEJYW5iq60_3EDycjpQ}, customMetadata=Optional[CustomMetadata{4 bytes}], state=COPY_SEGMENT_FINISHED,"
    " eventTimestampMs=17, brokerId=0}"
)
OPTIONS = KafkaFormatOptions(decoder=PayloadDecoder.REMOTE_LOG_METADATA)


def dumped(directory: Path, base_offset: int, *batches: Sequence[bytes]) -> tuple[str, int, list[str]]:
    """Return the line with the starting offset, the number of batches, and the payloads."""
    path = directory / f"{base_offset:020d}.log"
    offset, content = base_offset, b""
    for values in batches:
        content += batch(offset, values, key=None)
        offset += len(values)
    path.write_bytes(content)
    complaints: list[str] = []
    lines = "".join(dump_kafka_format([path], OPTIONS, complain=complaints.append)).splitlines()
    gap = [f"Non-consecutive offsets in {path}", f"  -1 is followed by {base_offset}"]
    assert complaints == (gap if base_offset else [])
    payloads = [line.split(" payload: ", 1)[1] for line in lines if line.startswith("| offset: ")]
    return lines[1], sum(line.startswith("baseOffset: ") for line in lines), payloads


def test_an_empty_log(tmp_path: Path) -> None:
    assert dumped(tmp_path, 0) == ("Log starting offset: 0", 0, [])


def test_one_record(tmp_path: Path) -> None:
    assert dumped(tmp_path, 0, [DELETE]) == ("Log starting offset: 0", 1, [DELETE_TEXT])


def test_several_records_in_a_batch(tmp_path: Path) -> None:
    assert dumped(tmp_path, 0, [UPDATE, DELETE]) == ("Log starting offset: 0", 1, [UPDATE_TEXT, DELETE_TEXT])


def test_several_batches(tmp_path: Path) -> None:
    found = dumped(tmp_path, 0, [UPDATE, DELETE], [UPDATE, DELETE])
    assert found == ("Log starting offset: 0", 2, [UPDATE_TEXT, DELETE_TEXT] * 2)


def test_a_later_segment(tmp_path: Path) -> None:
    assert dumped(tmp_path, 1, [DELETE]) == ("Log starting offset: 1", 1, [DELETE_TEXT])


def test_bytes_that_are_no_metadata(tmp_path: Path) -> None:
    start, batches, (payload,) = dumped(tmp_path, 0, [b"corrupted"])
    assert (start, batches) == ("Log starting offset: 0", 1)
    assert payload.startswith("Error at offset 0, skipping. Could not deserialize metadata record")


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A complaint names the unreadable file, and the next file is dumped."""
    secret, other = tmp_path / f"{0:020d}.log", tmp_path / f"{1:020d}.log"
    for path in (secret, other):
        path.write_bytes(batch(0, [DELETE], key=None))
    real = os.open

    def refuse(path: str | os.PathLike[str], *arguments: int, **options: int) -> int:
        if Path(path) == secret:
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)
    complaints: list[str] = []
    text = "".join(dump_kafka_format([secret, other], OPTIONS, complain=complaints.append))
    assert text.count(DELETE_TEXT) == 1
    (complaint,) = complaints
    assert re.search(rf"permission denied.*{re.escape(str(secret))}|{re.escape(str(secret))}.*permission", complaint)


def test_no_such_file(tmp_path: Path) -> None:
    result = run("dump", "--kafka-format", "--remote-log-metadata-decoder", tmp_path / f"{0:020d}.log", code=3)
    assert f"no such file: {tmp_path}" in result.stderr


def test_no_file_at_all() -> None:
    result = run("dump", "--kafka-format", "--remote-log-metadata-decoder", code=2)
    assert "Missing argument 'FILE...'" in result.stderr


@pytest.mark.parametrize("count", [1, 4, 8])
def test_as_many_batches_as_fit(tmp_path: Path, count: int) -> None:
    """A limit of exactly the first batches' bytes prints those batches. One byte less omits the last of them."""
    path = tmp_path / f"{0:020d}.log"
    batches = [batch(2 * number, [b"a" * number, b"b"]) for number in range(8)]
    path.write_bytes(b"".join(batches))
    size = sum(map(len, batches[:count]))
    for max_bytes, whole in ((size, count), (size - 1, count - 1)):
        options = KafkaFormatOptions(max_bytes=max_bytes)
        text = "".join(dump_kafka_format([path], options, complain=lambda _: None))
        assert sum(line.startswith("baseOffset: ") for line in text.splitlines()) == whole
