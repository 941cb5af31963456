"""``dump --kafka-format`` compared with Kafka's ``kafka-dump-log``, releases 4.2.0 and 4.3.1, on the same bytes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dump_cases import CASES, DATA, DIRECTORY, DumpCase, options_of
from golden_sets import KRAFT_SETS
from tidelog.inspect.dump import (
    KafkaFormatOptions,
    PayloadDecoder,
    ToolRelease,
    choose_payload_decoder,
    dump_kafka_format,
)

Golden = Callable[..., Path]

KAFKA_ENDS_THERE = {
    "bad-size": "CorruptRecordException",
    "zero-tail": "CorruptRecordException",
    "bad-crc-compressed": "ends in an exception of the codec",
    "index-into-batch": "no batch at the position",
    "index-past-end": "IllegalArgumentException",
    "index-small-messages": "NoSuchElementException",
    "index-odd-size": "CorruptIndexException",
    "missing-log": "NoSuchFileException",
    "no-key": "RuntimeException",
}
"""The cases in which Kafka's tool ends with an exception. Ours reports the error and goes on, so it may print more."""


@pytest.mark.parametrize("set_name", KRAFT_SETS)
def test_every_file_of_the_reference_dumps(set_name: str, golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    dumps = sorted(golden(set_name, "dump-clean").glob("*.txt"))
    monkeypatch.chdir(golden(set_name))
    assert len(dumps) > 10
    for dump in dumps:
        expected = dump.read_bytes().decode()
        options = KafkaFormatOptions(
            release=ToolRelease(min(set_name.rpartition("-")[2], ToolRelease.KAFKA_4_3)),
            deep_iteration=True,
            print_data_log=True,
            decoder=choose_payload_decoder(dump.stem),
        )
        files = re.findall(rf"^Dumping ({re.escape(dump.stem)}/\S+)$", expected, re.MULTILINE)
        assert "".join(dump_kafka_format(files, options, complain=lambda _: None)) == expected, dump.name


@pytest.mark.parametrize(
    ("name", "decoder"),
    [
        ("group", PayloadDecoder.OFFSETS),
        ("protocol", PayloadDecoder.OFFSETS),
        ("transaction", PayloadDecoder.TRANSACTION_LOG),
        ("share", PayloadDecoder.SHARE_GROUP_STATE),
        ("metadata", PayloadDecoder.CLUSTER_METADATA),
        ("remote", PayloadDecoder.REMOTE_LOG_METADATA),
        ("control", PayloadDecoder.PLAIN),
    ],
)
def test_every_record_type_and_version(name: str, decoder: PayloadDecoder, tmp_path: Path) -> None:
    """Kafka's own classes wrote these logs: all types and versions, random fields, some broken records."""
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes((DATA / "records" / f"{name}.log").read_bytes())
    complaints: list[str] = []
    text = "".join(
        dump_kafka_format([path], KafkaFormatOptions(deep_iteration=True, decoder=decoder), complain=complaints.append)
    )
    assert text.split("\n", 1)[1] == (DATA / "records" / f"{name}.txt").read_bytes().decode()
    assert not complaints


@pytest.mark.parametrize("release", [ToolRelease.KAFKA_4_2, ToolRelease.KAFKA_4_3])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(
    case: DumpCase, release: ToolRelease, golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "run"
    files = case.prepare(golden, directory)
    monkeypatch.chdir(directory)
    complaints: list[str] = []
    text = "".join(dump_kafka_format(files, options_of(case.switches, release), complain=complaints.append))
    if case.name in KAFKA_ENDS_THERE:
        assert text.startswith(case.stdout(release).rpartition("\n")[0])
        assert case.stderr(release)
        assert complaints
        return
    assert text == case.stdout(release)
    assert [line.replace(str(directory), DIRECTORY) for line in complaints] == case.stderr(release)
