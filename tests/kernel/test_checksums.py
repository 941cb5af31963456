"""CRC-32C and CRC-32: published vectors, every implementation this machine runs, every length and alignment."""

import random
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import Buffer

from kernel.twins import COMPILED, PLAIN, Twin, both
from tidelog import kernel

# RFC 3720, appendix B.4, and the check value of the algorithm's catalogue.
VECTORS = [
    (b"", 0),
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
]
IMPLEMENTATIONS = list(kernel.crc32c_implementations().items())
everywhere = pytest.mark.parametrize(
    "crc32c", [f for _, f in IMPLEMENTATIONS], ids=[name for name, _ in IMPLEMENTATIONS]
)


def test_the_portable_one_is_always_there() -> None:
    assert "portable" in kernel.crc32c_implementations()


@everywhere
@pytest.mark.parametrize(("data", "crc"), VECTORS)
def test_vectors(crc32c: Callable[..., int], data: bytes, crc: int) -> None:
    assert crc32c(data) == crc


@both
@pytest.mark.parametrize(("data", "crc"), VECTORS)
def test_vectors_of_the_twins(twin: Twin, data: bytes, crc: int) -> None:
    assert twin.crc32c(data) == crc


@everywhere
def test_every_length_and_alignment(crc32c: Callable[..., int]) -> None:
    """The lengths are near the lanes of the hardware loop, 3 × 128 and 3 × 1024 bytes, and near the first vectors."""
    data = random.Random(1).randbytes(7000)
    plain = [0]
    for end in range(1, len(data) + 1):
        plain.append(PLAIN.crc32c(data[end - 1 : end], plain[-1]))
    for end in [*range(900), *range(3060, 3500), *range(6100, 6700)]:
        assert crc32c(data[:end]) == plain[end]
    view = memoryview(data)
    for start in range(17):
        assert crc32c(view[start:]) == PLAIN.crc32c(data[start:])


@everywhere
@given(data=st.binary(max_size=3000), cut=st.integers(0, 3000))
def test_a_crc_goes_on_from_a_crc(crc32c: Callable[..., int], data: bytes, cut: int) -> None:
    assert crc32c(data[cut:], crc32c(data[:cut])) == crc32c(data)


@everywhere
@given(seed=st.integers(0, 2**32), size=st.integers(0, 20000))
def test_implementations_agree(crc32c: Callable[..., int], seed: int, size: int) -> None:
    data = random.Random(seed).randbytes(size)
    assert crc32c(data) == kernel.crc32c(data)


@given(data=st.binary(max_size=500), cut=st.integers(0, 500))
def test_crc32_is_zlibs(data: bytes, cut: int) -> None:
    assert kernel.crc32(data) == zlib.crc32(data)
    assert kernel.crc32(data[cut:], kernel.crc32(data[:cut])) == zlib.crc32(data)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer(kind: Callable[[bytes], Buffer]) -> None:
    assert COMPILED.crc32c(kind(b"123456789")) == 0xE3069283


def test_what_is_no_buffer() -> None:
    with pytest.raises(TypeError):
        kernel.crc32c("text")  # type: ignore[arg-type]
