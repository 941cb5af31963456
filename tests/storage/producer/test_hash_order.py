"""JavaHashOrder compared with Java's HashMap: recorded orders, and thousands of histories if Java is installed."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from real_kafka.java import run_java
from tidelog.storage.producer.hash_order import JavaHashOrder

THOUSANDS = [1024 * number for number in range(1, 15)]

WRITTEN_DOWN = [
    # Keys that are put, computed, removed and put again, and the order in which Java 17 lists them.
    ([17, 1, 16, 0, 33], [], [], [], "16 0 17 1 33"),
    ([], [17, 1, 16, 0, 33], [], [], "0 16 33 1 17"),
    ([5000, 4000, 3000, 2000, 1000], [], [], [], "4000 2000 5000 3000 1000"),
    ([-1, 1 << 32, 1 << 16, 1 << 48 | 1], [], [], [], "-1 281474976710657 4294967296 65536"),
    (range(24, 11, -1), [], [], [], "12 13 14 15 16 17 18 19 20 21 22 23 24"),
    ([], range(24, 11, -1), [], [], "16 17 18 19 20 21 22 23 24 12 13 14 15"),
    ([*range(1600, 1456, -16), 3], [], [], [], "1600 1568 1536 1504 1472 3 1584 1552 1520 1488"),
    (THOUSANDS, [], [], [], "4096 1024 2048 3072 5120 6144 7168 8192 9216 10240 11264 12288 13312 14336"),
    ([], THOUSANDS[::-1], [], [], "8192 5120 4096 3072 2048 1024 6144 7168 9216 10240 11264 12288 13312 14336"),
    (
        THOUSANDS,
        [],
        [4096, 2048, 9216],
        [20480, 102400],
        "10240 1024 3072 5120 6144 7168 8192 11264 12288 13312 14336 20480 102400",
    ),
]


def histories(seed: int, count: int) -> list[list[tuple[str, int]]]:
    """Make histories of Kafka's ids (counted up in blocks of 1000), random ids, and strides that fill one bucket."""
    choose = random.Random(seed)
    made = []
    for _ in range(count):
        stride, start = (
            choose.choice([1, 2, 3, 7, 8, 64, 1000, 1024, 1 << 20, 1 << 32]),
            choose.choice([0, 4000, 2**33 - 50, 2**62]),
        )
        wild = choose.random() < 0.3
        history: list[tuple[str, int]] = []
        verbs = choose.choice([("put",), ("compute",), ("put", "compute"), ("put", "put", "remove")])
        for _ in range(choose.choice([3, 12, 13, 14, 40, 200, 400])):
            key = choose.getrandbits(63) if wild else start + stride * choose.randrange(150)
            history.append((choose.choice(verbs), key))
            if choose.random() < 0.01:
                history.append(("clear", 0))
        made.append(history)
    return made


def play(history: list[tuple[str, int]]) -> list[int]:
    order = JavaHashOrder()
    for verb, key in history:
        if verb == "put":
            order.put(key)
        elif verb == "compute":
            order.compute_if_absent(key)
        elif verb == "clear":
            order.clear()
        elif key in order:
            order.remove(key)
    return list(order)


@pytest.mark.parametrize(("put", "computed", "removed", "put_again", "listed"), WRITTEN_DOWN)
def test_orders_that_java_gave(
    put: Iterable[int], computed: Iterable[int], removed: Iterable[int], put_again: Iterable[int], listed: str
) -> None:
    steps = (("put", put), ("compute", computed), ("remove", removed), ("put", put_again))
    assert play([(verb, key) for verb, keys in steps for key in keys]) == [int(key) for key in listed.split()]


def test_a_set_of_longs() -> None:
    """The keys agree with a Python set in any order, with and without tree buckets."""
    for history in histories(seed=11, count=300):
        model: set[int] = set()
        for verb, key in history:
            if verb == "clear":
                model.clear()
            elif verb == "remove":
                model.discard(key)
            else:
                model.add(key)
        listed = play(history)
        assert len(listed) == len(model)
        assert set(listed) == model


def test_removing_what_is_not_there() -> None:
    order = JavaHashOrder()
    with pytest.raises(KeyError):
        order.remove(1)
    order.put(1)
    with pytest.raises(KeyError):
        order.remove(17)
    order.remove(1)
    assert len(order) == 0
    assert 1 not in order


@pytest.mark.kafka
def test_histories_against_java(tmp_path: Path) -> None:
    made = histories(seed=7, count=4000)
    file = tmp_path / "histories"
    file.write_text("".join(" ".join(f"{verb}:{key}" for verb, key in history) + "\n" for history in made))
    lines = run_java("HashOrder", file).split("\n")
    assert len(lines) == len(made) + 1
    for history, line in zip(made, lines, strict=False):
        assert play(history) == [int(key) for key in line.split()], history
