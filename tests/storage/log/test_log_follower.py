"""A follower's appends: it takes batches of any size and format, and never garbage. Its high watermark."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from legacy_messages import Message, encode_set
from log_maker import plain
from storage.log.log_harness import NOW, LogHarness, fetch, lead, read
from tidelog.model import Isolation, RecordTooLargeError, TidelogError

VALID = plain(0, 3)


def test_a_batch_larger_than_a_leader_would_take(harness: LogHarness) -> None:
    small, large = plain(0, 2), plain(5, 2, size=90)
    log = harness.open(max_message_bytes=len(large) - 1)
    log.append_as_follower(small, 0)
    log.append_as_follower(large, 0)
    assert fetch(log, 0).data() == small + large
    with pytest.raises(RecordTooLargeError):
        lead(log, plain(0, 2, size=90))
    assert log.end_offset == 7


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=200)
    | st.binary(min_size=12, max_size=200).map(lambda rest: b"\0" * 8 + len(rest).to_bytes(4, "big") + rest)
    | st.builds(
        lambda at, bit: VALID[:at] + bytes([VALID[at] ^ 1 << bit]) + VALID[at + 1 :],
        # The CRC does not cover the base offset and the epoch.
        st.sampled_from([at for at in range(8, len(VALID)) if not 12 <= at < 16]),
        st.integers(0, 7),
    )
)
def test_rubbish_is_refused_or_left_out(harness: LogHarness, content: bytes) -> None:
    """No part of the garbage enters the log, and the log still accepts appends."""
    log = harness.open()
    before = log.end_offset
    try:
        result = log.append_as_follower(content, 2**31 - 1)
    except TidelogError:
        pass
    else:
        assert len(result.offsets) == 0
    assert (log.end_offset, log.size, log.is_healthy) == (before, 0, True)
    log.close()


def test_the_high_watermark_follows_the_leaders(harness: LogHarness) -> None:
    """The high watermark stays within the log, and a repeated value changes nothing."""
    heard: list[int] = []
    log = harness.open(on_high_watermark=heard.append)
    harness.add(log, 100)
    for told, now in ((99, 99), (99, 99), (100, 100), (100, 100), (101, 100)):
        assert log.update_high_watermark(told) == now
    assert heard == [99, 100]
    assert read(log, 99, Isolation.READ_UNCOMMITTED) == [99]


def test_epochs_begin_with_the_format_that_has_them(harness: LogHarness) -> None:
    log = harness.open()
    log.append_as_follower(encode_set([Message(0, NOW, b"k", b"v")], 1), 5)
    assert (log.epochs.latest, harness.epochs()) == (None, [])
    harness.add(log, epoch=5)
    assert (log.epochs.latest, harness.epochs()) == (5, [(5, 1)])
