"""Codecs: round trips, frames of other writers, hostile sizes, flipped bits."""

from __future__ import annotations

import gzip as stdlib_gzip
import random
import resource
import struct
import threading
import zlib

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import Buffer

from tidelog.model import ConfigError, CorruptRecordError, UnsupportedCompressionError
from tidelog.record.attributes import CODECS, GZIP, LZ4, NONE, SNAPPY, ZSTD
from tidelog.record.compression import compress, decompress

COMPRESSING = [GZIP, SNAPPY, LZ4, ZSTD]
XERIAL_HEADER = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"


def plain_of(codec: int, data: Buffer, **options: int) -> bytes:
    return bytes(decompress(codec, data, **options))


def text(size: int, seed: int = 1) -> bytes:
    return bytes(random.Random(seed).choices(b"the quick brown fox", k=size))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 1, 13, 32_767, 32_768, 32_769, 65_536, 1_000_000])
def test_round_trip(codec: int, size: int) -> None:
    data = text(size)
    assert plain_of(codec, compress(codec, data)) == data
    assert plain_of(codec, memoryview(bytearray(compress(codec, memoryview(data))))) == data


@given(data=st.binary(max_size=2_000), codec=st.sampled_from(sorted(CODECS)), magic=st.sampled_from([0, 1, 2]))
def test_round_trip_of_anything(data: bytes, codec: int, magic: int) -> None:
    if codec == ZSTD and magic < 2:
        return
    assert plain_of(codec, compress(codec, data, magic=magic), magic=magic) == data


def test_gzip_reads_members_of_others_and_ignores_what_is_no_member() -> None:
    members = stdlib_gzip.compress(b"one ", 9) + zlib.compress(b"two ", 1, 31) + stdlib_gzip.compress(b"") * 3
    assert plain_of(GZIP, members) == b"one two "
    assert plain_of(GZIP, members + b"\0\0\0 no member") == b"one two "
    assert stdlib_gzip.decompress(compress(GZIP, b"three")) == b"three"


def test_gzip_with_very_many_members_takes_linear_time() -> None:
    assert plain_of(GZIP, stdlib_gzip.compress(b"x", 1) * 50_000) == b"x" * 50_000


def test_snappy_is_read_plain_and_framed() -> None:
    data = text(100_000)
    assert plain_of(SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data
    assert plain_of(SNAPPY, compress(SNAPPY, data) + compress(SNAPPY, b"again")) == data + b"again"


def test_snappy_is_framed_as_by_java() -> None:
    framed = compress(SNAPPY, text(40_000))
    assert framed.startswith(XERIAL_HEADER)
    (first,) = struct.unpack_from(">i", framed, 16)
    assert cramjam.snappy.decompress_raw_len(framed[20 : 20 + first]) == 32_768


def test_lz4_frame_header_is_kafkas() -> None:
    assert compress(LZ4, b"abc")[:7] == b"\x04\x22\x4d\x18\x60\x40\x82"


def test_lz4_in_v0_has_the_wrong_header_checksum_and_any_is_read_there() -> None:
    right, wrong = compress(LZ4, b"abc"), compress(LZ4, b"abc", magic=0)
    assert wrong[:7] == b"\x04\x22\x4d\x18\x60\x40\x1a"
    assert wrong[7:] == right[7:]
    assert plain_of(LZ4, wrong, magic=0) == plain_of(LZ4, right, magic=0) == b"abc"
    with pytest.raises(CorruptRecordError):
        plain_of(LZ4, wrong, magic=1)


@pytest.mark.parametrize("store_size", [True, False])
@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("checksums", [True, False])
@pytest.mark.parametrize("magic", [0, 2])
def test_lz4_frames_of_other_writers(store_size: bool, linked: bool, checksums: bool, magic: int) -> None:
    data = text(300_000)
    frame = lz4.frame.compress(
        data, store_size=store_size, block_linked=linked, content_checksum=checksums, block_checksum=checksums
    )
    assert plain_of(LZ4, frame, magic=magic) == data
    assert plain_of(LZ4, frame + b"left over", magic=magic) == data
    assert plain_of(LZ4, frame, magic=magic, max_bytes=len(data)) == data


@pytest.mark.parametrize(("kept", "message"), [(14, "ends inside its frame header"), (15, "data is corrupt")])
def test_lz4_frame_headers_cut_short(kept: int, message: str) -> None:
    """A header with a content size has 15 bytes."""
    with pytest.raises(CorruptRecordError, match=message):
        plain_of(LZ4, lz4.frame.compress(text(100), store_size=True)[:kept])


@pytest.mark.parametrize(("more", "message"), [(0, "data is corrupt"), (1, "more than they can hold")])
def test_lz4_content_sizes_above_the_largest_expansion(more: int, message: str) -> None:
    frame = bytearray(lz4.frame.compress(text(100), store_size=True))
    struct.pack_into("<Q", frame, 6, 255 * len(frame) + more)
    with pytest.raises(CorruptRecordError, match=message):
        plain_of(LZ4, frame, magic=0)


def test_zstd_frames_with_and_without_size_one_after_the_other() -> None:
    sized = zstandard.ZstdCompressor(write_checksum=True).compress(text(200_000))
    stream = zstandard.ZstdCompressor().compressobj()
    unsized = stream.compress(text(300_000, 2)) + stream.flush()
    assert plain_of(ZSTD, sized + unsized) == text(200_000) + text(300_000, 2)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_cut_short(codec: int) -> None:
    data = text(70_000)
    packed = compress(codec, data)
    for kept in (0, 1, 5, 12, len(packed) // 2, len(packed) - 3):
        with pytest.raises(CorruptRecordError):
            plain_of(codec, packed[:kept])


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("size", [2, 1_000, 100_000])
def test_limit_is_exact(codec: int, size: int) -> None:
    packed = compress(codec, text(size))
    assert len(plain_of(codec, packed, max_bytes=size)) == size
    with pytest.raises(CorruptRecordError, match=f"more than {size - 1:,} bytes"):
        plain_of(codec, packed, max_bytes=size - 1)


BOMBS = {
    "gzip": GZIP,
    "lz4": LZ4,
    "lz4 content size": LZ4,
    "zstd": ZSTD,
    "snappy length": SNAPPY,
    "snappy block length": SNAPPY,
    "snappy many claims": SNAPPY,
    "snappy negative length": SNAPPY,
}


def bomb(name: str) -> tuple[int, bytes]:
    """Make a small input that holds, or claims to hold, hundreds of mebibytes of zeros."""
    mebibyte = bytes(1 << 20)
    snappy_claim = b"\xff\xff\xff\xff\x0f" + b"\0" * 20
    match name:
        case "gzip":
            deflate = zlib.compressobj(1, zlib.DEFLATED, 31)
            packed = b"".join([deflate.compress(mebibyte) for _ in range(200)]) + deflate.flush()
        case "lz4":
            packed = lz4.frame.compress(mebibyte * 200)
        case "lz4 content size":
            claim = bytearray(lz4.frame.compress(b"x" * 100, store_size=True))
            struct.pack_into("<Q", claim, 6, 1 << 62)
            packed = bytes(claim)
        case "zstd":
            packed = zstandard.ZstdCompressor().compress(mebibyte * 64) * 40
        case "snappy length":
            packed = snappy_claim
        case "snappy block length":
            packed = XERIAL_HEADER + struct.pack(">i", len(snappy_claim)) + snappy_claim
        case "snappy many claims":
            packed = XERIAL_HEADER + (struct.pack(">i", 6) + b"\x80\x01\0\0\0\0") * 300_000
        case _:
            packed = XERIAL_HEADER + struct.pack(">i", -5) + b"abc"
    return BOMBS[name], packed


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_in_bounded_memory(name: str) -> None:
    codec, packed = bomb(name)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CorruptRecordError):
        decompress(codec, packed, max_bytes=32 << 20)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 400 << 10


@pytest.mark.parametrize("codec", COMPRESSING)
def test_flipped_bits_give_bytes_or_corrupt(codec: int) -> None:
    rng = random.Random(codec)
    packed = compress(codec, text(3_000))
    outcomes: set[int | type[CorruptRecordError]] = set()
    for _ in range(2_000):
        flipped = bytearray(packed)
        for _ in range(rng.randint(1, 3)):
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
        try:
            outcomes.add(len(plain_of(codec, flipped, magic=rng.choice([1, 2]) if codec != ZSTD else 2)))
        except CorruptRecordError as error:
            outcomes.add(type(error))
    assert CorruptRecordError in outcomes


@given(data=st.binary(max_size=200), codec=st.sampled_from(COMPRESSING), magic=st.sampled_from([0, 1, 2]))
def test_junk_gives_bytes_or_corrupt(data: bytes, codec: int, magic: int) -> None:
    for junk in (
        data,
        XERIAL_HEADER + data,
        b"\x04\x22\x4d\x18" + data,
        b"\x28\xb5\x2f\xfd" + data,
        b"\x1f\x8b\x08" + data,
    ):
        try:
            decompress(codec, junk, magic=magic)
        except CorruptRecordError:
            pass


def test_unknown_codecs() -> None:
    for codec in (5, 6, 7):
        with pytest.raises(UnsupportedCompressionError, match=str(codec)):
            decompress(codec, b"")
        with pytest.raises(UnsupportedCompressionError):
            compress(codec, b"")


def test_zstd_is_for_v2_only() -> None:
    with pytest.raises(CorruptRecordError, match="v1"):
        decompress(ZSTD, compress(ZSTD, b"abc"), magic=1)
    with pytest.raises(CorruptRecordError, match="v0"):
        compress(ZSTD, b"abc", magic=0)


@pytest.mark.parametrize(
    ("codec", "good", "bad"),
    [(GZIP, [-1, 1, 6, 9], [0, 10]), (LZ4, [1, 9, 17], [0, 18]), (ZSTD, [-5, 1, 22], [23]), (SNAPPY, [], [1])],
)
def test_levels_are_kafkas(codec: int, good: list[int], bad: list[int]) -> None:
    data = text(50_000)
    for level in good:
        assert plain_of(codec, compress(codec, data, level)) == data
    for level in bad:
        with pytest.raises(ConfigError):
            compress(codec, data, level)
    assert compress(NONE, data) == data


def test_threads_share_the_libraries_contexts() -> None:
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for round_ in range(50):
                data = text(20_000, seed * 1_000 + round_)
                for codec in COMPRESSING:
                    assert plain_of(codec, compress(codec, data)) == data
        except BaseException as error:  # passed to the main thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
