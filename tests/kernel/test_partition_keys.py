"""The partition of a key: both twins against Kafka's numbers, each other, and the Java and Python clients."""

import random
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as clients_murmur2

from kernel.reference.partition_keys import murmur2
from kernel.twins import COMPILED, PLAIN, Twin, both, outcome
from real_kafka.java import run_java

KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""The values of Kafka's ``UtilsTest.testMurmur2``."""


def columns(keys: list[bytes]) -> tuple[bytes, npt.NDArray[np.int32]]:
    return b"".join(keys), np.cumsum([0, *map(len, keys)], dtype=np.int32)


@both
def test_kafkas_numbers(twin: Twin) -> None:
    keys = list(KNOWN)
    wanted = [(number & 0x7FFFFFFF) % 2**31 for number in KNOWN.values()]
    assert [(number & 0x7FFFFFFF) for number in map(murmur2, keys)] == wanted
    for partitions in (1, 2, 7, 1000, 2**31 - 1):
        found = twin.partition_keys(*columns(keys), partitions)
        assert found.dtype == np.int32
        assert found.tolist() == [number % partitions for number in wanted]


@given(keys=st.lists(st.binary(max_size=40), max_size=20), partitions=st.integers(1, 2**31 - 1))
def test_twins_agree_with_the_client(keys: list[bytes], partitions: int) -> None:
    made = columns(keys)
    found = COMPILED.partition_keys(*made, partitions).tolist()
    assert found == PLAIN.partition_keys(*made, partitions).tolist()
    assert found == [(clients_murmur2(key) & 0x7FFFFFFF) % partitions for key in keys]


@both
def test_a_slice_of_the_keys(twin: Twin) -> None:
    data, offsets = columns([b"a", b"bc", b"", b"defgh"])
    whole = twin.partition_keys(data, offsets, 50).tolist()
    assert twin.partition_keys(data, offsets[1:4], 50).tolist() == whole[1:3]
    assert twin.partition_keys(b"", np.zeros(1, np.int32), 5).tolist() == []


@pytest.mark.parametrize(
    ("data", "offsets", "partitions"),
    [(b"abc", [0, 4], 5), (b"abc", [-1, 2], 5), (b"abc", [2, 1], 5), (b"abc", [0, 1], 0), (b"abc", [], 5)],
)
def test_what_makes_no_sense_is_refused(data: bytes, offsets: list[int], partitions: int) -> None:
    made = np.array(offsets, np.int32)
    compiled, plain = (outcome(partial(twin.partition_keys, data, made, partitions)) for twin in (COMPILED, PLAIN))
    assert compiled == plain
    assert compiled[0] == "ValueError"


@pytest.mark.kafka
def test_thousands_of_keys_go_where_the_java_client_sends_them(tmp_path: Path) -> None:
    chance = random.Random(8)
    keys = [chance.randbytes(chance.randrange(40)) for _ in range(5000)]
    file = tmp_path / "keys"
    file.write_text("".join(f"{key.hex()}\n" for key in keys))
    wanted = [int(line) for line in run_java("KeyPartitions", file, "12").split()]
    for twin in (COMPILED, PLAIN):
        assert twin.partition_keys(*columns(keys), 12).tolist() == wanted
