"""Reused memory: never while a caller still views it, and without an effect on a decoder's results."""

import gc
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from kernel.batch_bytes import batch, record
from kernel.twins import columns_value
from tidelog.kernel import ColumnDecoder, scan_batches, take_buffer

LARGE = 1 << 20


def address(buffer: memoryview) -> int:
    return np.frombuffer(buffer, np.uint8).ctypes.data


@pytest.mark.parametrize("size", [0, 1, 100, 32 << 10, LARGE + 1, 40 << 20])
def test_a_buffer_has_the_size_asked_for_and_can_be_written(size: int) -> None:
    buffer = take_buffer(size)
    assert (len(buffer), buffer.readonly) == (size, False)
    buffer[:] = bytes([7]) * size
    assert bytes(buffer) == bytes([7]) * size


@pytest.fixture
def no_garbage() -> Iterator[None]:
    """Stop the collector, so that garbage of other tests does not free buffers during the test."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage")
def test_a_buffer_is_used_again_once_nobody_looks_at_it() -> None:
    held = [take_buffer(LARGE) for _ in range(64)]  # more than the spare blocks of earlier tests
    buffer = take_buffer(LARGE)
    first = address(buffer)
    part = buffer[10:20]
    del buffer
    held.append(take_buffer(LARGE))
    assert address(held[-1]) != first
    del part
    assert address(take_buffer(LARGE)) == first


def test_what_a_decoder_gave_stays_as_it_was() -> None:
    """Columns that are kept keep their contents while other columns come and go."""
    datas = [
        batch([record(n, bytes([seed]) * 9, bytes([seed]) * 4000, [(b"h", bytes([seed]))]) for n in range(200)])
        for seed in range(6)
    ]
    decoder = ColumnDecoder()
    kept, expected = [], []
    for turn in range(60):
        data = datas[turn % len(datas)]
        decoder.add_batches(data, scan_batches(data))
        columns = decoder.finish()
        assert columns.value_data is not None
        assert bytes(columns.value_data[:4000]) == bytes([turn % len(datas)]) * 4000
        if turn % 7 == 0:
            kept.append(columns)
            expected.append(columns_value(columns))
        if turn % 21 == 20:
            del kept[0], expected[0]
    gc.collect()
    assert [columns_value(columns) for columns in kept] == expected


def test_threads_share_the_spare_memory() -> None:
    failures = []

    def work(seed: int) -> None:
        for turn in range(300):
            size = (32 << 10) * (1 + (turn * seed) % 9)
            buffer = take_buffer(size)
            np.frombuffer(buffer, np.uint8)[:] = seed
            if turn % 3 == 0:
                other = take_buffer(size // 2)
                np.frombuffer(other, np.uint8)[:] = seed + 100
            if not (np.frombuffer(buffer, np.uint8) == seed).all():
                failures.append((seed, turn))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
