"""LZ4 frames: compiled kernel, plain kernel and library agree, and damaged frames are left to the library."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lz4 import frame

from kernel.twins import COMPILED, PLAIN, Twin, both, outcome
from tidelog.model import CorruptRecordError
from tidelog.record.attributes import LZ4
from tidelog.record.compression import compress, decompress

SIZES = [frame.BLOCKSIZE_MAX64KB, frame.BLOCKSIZE_MAX256KB, frame.BLOCKSIZE_MAX1MB, frame.BLOCKSIZE_MAX4MB]
ODD = [
    {"block_linked": True},
    {"store_size": True},
    {"content_checksum": True},
    {"block_checksum": True},
]


def framed(data: bytes, **options: int) -> bytes:
    found: bytes = frame.compress(data, **{"block_linked": False, "store_size": False} | options)
    return found


def opened(
    twin: Twin, frames: list[bytes], enough_bytes: int = 1 << 30, max_bytes: int = 1 << 30
) -> list[bytes | None]:
    """Return each frame's contents, or None if the kernel left it."""
    ends = np.cumsum([len(one) for one in frames])
    starts = ends - [len(one) for one in frames]
    data, plain_ends = twin.open_lz4_frames(
        b"".join(frames), starts, ends, enough_bytes=enough_bytes, max_bytes=max_bytes
    )
    found = []
    done = 0
    for end in plain_ends.tolist():
        found.append(None if end < 0 else bytes(data[done:end]))
        done = max(done, end)
    assert done == len(data)
    return found


def some_data(chance: random.Random) -> bytes:
    """Make runs, near and far repetitions, and noise."""
    out = bytearray()
    for _ in range(chance.randrange(1, 30)):
        kind = chance.randrange(4)
        if kind == 0:
            out += bytes([chance.randrange(256)]) * chance.choice([1, 4, 19, 20, 300, 70_000])
        elif kind == 1:
            out += chance.randbytes(chance.choice([1, 14, 15, 16, 33, 270, 600]))
        elif out:
            at = chance.randrange(len(out))
            piece = out[at : at + chance.choice([4, 5, 18, 19, 35, 500])]
            out += piece * chance.choice([1, 1, 2, 40])
    return bytes(out)


@pytest.mark.parametrize("block_size", SIZES)
@pytest.mark.parametrize("level", [0, 9])
def test_frames_of_every_block_size(block_size: int, level: int) -> None:
    chance = random.Random(block_size)
    datas = [some_data(chance) for _ in range(40)]
    frames = [framed(data, block_size=block_size, compression_level=level) for data in datas]
    assert opened(COMPILED, frames) == datas
    assert opened(PLAIN, frames[:5]) == datas[:5]


@both
def test_what_our_own_codec_writes(twin: Twin) -> None:
    datas = [b"", b"a", b"abcd" * 9, bytes(70_000), random.Random(5).randbytes(100_000)]
    assert opened(twin, [bytes(compress(LZ4, data)) for data in datas]) == datas


@both
@pytest.mark.parametrize("options", ODD)
def test_frames_of_another_kind_are_left(twin: Twin, options: dict[str, bool]) -> None:
    data = b"abc" * 100_000
    assert opened(twin, [framed(b"x"), framed(data, **options), framed(b"y")]) == [b"x", None, b"y"]


@both
def test_no_more_is_opened_than_is_asked_for(twin: Twin) -> None:
    frames = [framed(bytes(1000))] * 5
    assert opened(twin, frames, enough_bytes=1) == [bytes(1000)]
    assert opened(twin, frames, enough_bytes=1001) == [bytes(1000)] * 2
    assert opened(twin, frames, max_bytes=999) == [None] * 5
    assert opened(twin, frames, max_bytes=1000) == [bytes(1000)] * 5


@both
@pytest.mark.parametrize(
    ("starts", "ends"), [([], []), ([0], [0, 1]), ([-1], [0]), ([2], [1]), ([0], [5]), ([2**62], [2**62 + 1])]
)
def test_frames_that_are_not_there(twin: Twin, starts: list[int], ends: list[int]) -> None:
    with pytest.raises(ValueError, match="frame"):
        twin.open_lz4_frames(bytes(4), np.array(starts), np.array(ends), enough_bytes=10, max_bytes=10)


def check(data: bytes) -> None:
    """Check that both kernels agree with each other, and with the library in the frames that they open."""
    found = opened(COMPILED, [data])
    assert found == opened(PLAIN, [data])
    if found[0] is not None:
        theirs = outcome(lambda: bytes(decompress(LZ4, data)))
        assert (
            theirs == found[0] or theirs[0] == CorruptRecordError.__name__
        )  # the library is stricter about a block's last bytes


@pytest.mark.parametrize("part", range(4))
def test_damaged_frames(part: int) -> None:
    for number in range(part, 1200, 4):
        chance = random.Random(number)
        whole = bytearray(framed(some_data(chance)[:3000]))
        for _ in range(chance.randrange(3)):
            at = chance.randrange(len(whole))
            whole[at] = chance.choice([0, 1, 0x0F, 0xF0, 0xFF, chance.randrange(256)])
        cut = chance.choice([len(whole), len(whole), chance.randrange(len(whole) + 1)])
        check(bytes(whole[:cut]))


@given(st.binary(max_size=120))
@settings(max_examples=300)
def test_any_block(block: bytes) -> None:
    check(framed(b"")[:7] + len(block).to_bytes(4, "little") + block + bytes(4))


@given(st.binary(max_size=60))
def test_any_bytes(data: bytes) -> None:
    check(data)
    check(framed(b"")[:7] + data)
