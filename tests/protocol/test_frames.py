"""Frames of a stream that comes in pieces of any size."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.protocol.errors import MalformedMessageError
from tidelog.protocol.frames import FrameReader, length_prefix


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


def stream_of(frames: list[bytes]) -> bytes:
    return b"".join(length_prefix([frame]) + frame for frame in frames)


def taken(reader: FrameReader) -> list[bytes]:
    frames = []
    while (frame := reader.next_frame()) is not None:
        frames.append(bytes(frame))
    return frames


@given(frames=st.lists(st.binary(max_size=300)), cuts=st.lists(st.integers(min_value=1, max_value=200)))
def test_frames_come_out_as_they_went_in_however_they_are_cut(frames: list[bytes], cuts: list[int]) -> None:
    stream = stream_of(frames)
    reader = FrameReader(1000)
    for cut in cuts:
        reader.receive(stream[:cut])
        stream = stream[cut:]
    reader.receive(stream)
    assert taken(reader) == frames


def test_a_large_frame_is_received_in_place() -> None:
    frame = bytes(range(256)) * 2000
    stream = stream_of([frame])
    reader = FrameReader(len(frame))
    reader.receive(stream[:100])
    position = 100
    while (space := reader.space()) is not None:
        piece = stream[position : position + min(len(space), 70_000)]
        space[: len(piece)] = piece
        space.release()
        position += len(piece)
        reader.filled(len(piece))
    assert position == len(stream)
    assert taken(reader) == [frame]


def test_an_announced_size_takes_no_memory_before_its_bytes_come() -> None:
    before = resident_bytes()
    readers = [FrameReader(100_000_000) for _ in range(10)]
    for reader in readers:
        reader.receive(struct.pack(">i", 100_000_000) + b"x" * 1000)
        assert reader.held_bytes <= 64 * 1024
    assert resident_bytes() - before < 20_000_000
    readers[0].receive(b"x" * 1_000_000)
    assert readers[0].held_bytes == 1_001_000


@pytest.mark.parametrize("length", [-1, -(2**31), 1001, 2**31 - 1])
def test_a_length_that_is_not_allowed_ends_the_stream(length: int) -> None:
    with pytest.raises(MalformedMessageError, match=str(length)):
        FrameReader(1000).receive(struct.pack(">i", length))
