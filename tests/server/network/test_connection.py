"""A connection with fast, slow, fragmented or missing frames, and with responses that the client does not read."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
import threading
import time
from collections.abc import Awaitable
from pathlib import Path

import pytest

from server.network.listener_harness import ListenerHarness, echo, listening, reply, sendfile_counts, tls
from tidelog.model import LogOffsetMetadata
from tidelog.server.network.connection import Reply
from tidelog.server.security.listener_security import OPEN
from tidelog.storage.fs import LOCAL, File
from tidelog.storage.segment.segment_read import SegmentRead
from tidelog.testing.broker.loop_thread import PATIENCE_S

MEBIBYTE = 1 << 20


def file_slice(file: File, position: int, size: int) -> SegmentRead:
    return SegmentRead(start=LogOffsetMetadata(0, 0, position), file=file, size=size, first_entry_incomplete=False)


@pytest.fixture(autouse=True, params=["without TLS", "with TLS"])
def _security(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "with TLS":
        monkeypatch.setattr(ListenerHarness, "security", tls())


def test_frames_that_come_together_are_answered_in_order() -> None:
    """A fast response does not overtake a slow one."""

    def answer(frame: bytes) -> Reply | Awaitable[Reply]:
        return later(frame) if frame[-1] % 3 == 0 else reply(frame)

    async def later(frame: bytes) -> Reply:
        await asyncio.sleep(0.001)
        return reply(frame)

    frames = [bytes([number]) * (number + 1) for number in range(100)]
    with listening(answer) as harness, harness.client() as client:
        client.send_frames(*frames)
        assert [client.receive_frame() for _ in frames] == frames


def test_many_answers_that_are_there_at_once_go_out_in_order_and_others_have_their_turn() -> None:
    frames = [bytes([number]) * number * 4 for number in range(250)]
    with listening(echo) as harness, harness.client() as client, harness.client() as other:
        client.send_frames(*frames)
        assert other.exchange(b"?") == b"?"
        assert [client.receive_frame() for _ in frames] == frames


def test_an_answer_does_not_wait_for_that_of_a_slower_request_that_came_with_it() -> None:
    waiting: list[asyncio.Future[Reply]] = []

    def answer(frame: bytes) -> Reply | Awaitable[Reply]:
        if frame == b"quick":
            return reply(frame)
        waiting.append(harness.loop.create_future())
        return waiting[-1]

    with listening(answer) as harness, harness.client() as client:
        client.send_frames(b"quick", b"quick", b"slow", b"quick")
        assert [client.receive_frame() for _ in range(2)] == [b"quick", b"quick"]
        harness.wait_for_requests(3)
        client.send_frames(b"quick")
        harness.call(lambda: waiting[0].set_result(reply(b"slow")))
        assert [client.receive_frame() for _ in range(3)] == [b"slow", b"quick", b"quick"]


def test_an_answer_goes_out_though_the_request_behind_it_fails() -> None:
    def answer(frame: bytes) -> Reply:
        if frame == b"bad":
            raise ZeroDivisionError
        return reply(frame)

    with listening(answer) as harness, harness.client() as client:
        client.send_frames(b"good", b"bad")
        assert client.receive_frame() == b"good"
        assert client.is_closed_by_broker()
        assert harness.begun == [b"good", b"bad"]


def test_a_frame_that_comes_byte_by_byte_is_answered() -> None:
    with listening(echo) as harness, harness.client() as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in struct.pack(">i", 5) + b"hello":
            client.socket.sendall(bytes([byte]))
        assert client.receive_frame() == b"hello"


def test_a_large_frame_comes_and_goes_whole() -> None:
    frame = os.urandom(9 * MEBIBYTE + 1)
    with listening(echo) as harness, harness.client() as client:
        assert client.exchange(frame) == frame


def test_no_request_begins_before_the_one_before_it_is_answered() -> None:
    futures: list[asyncio.Future[Reply]] = []

    def answer(frame: bytes) -> Reply | Awaitable[Reply]:
        if frame == b"quick":
            return reply(frame)
        futures.append(harness.loop.create_future())
        return futures[-1]

    with listening(answer) as harness, harness.client() as client, harness.client() as other:
        client.send_frames(b"first", b"second")
        harness.wait_for_requests(1)
        assert other.exchange(b"quick") == b"quick"
        assert harness.begun == [b"first", b"quick"]
        harness.call(lambda: futures[0].set_result(reply(b"1")))
        assert client.receive_frame() == b"1"
        harness.wait_for_requests(3)
        harness.call(lambda: futures[1].set_result(reply(b"2")))
        assert client.receive_frame() == b"2"


def test_a_request_without_an_answer_is_followed_by_the_next() -> None:
    with listening(lambda frame: None if frame == b"quiet" else reply(frame)) as harness, harness.client() as client:
        client.send_frames(b"quiet", b"quiet", b"loud")
        assert client.receive_frame() == b"loud"


def test_a_slow_reader_holds_one_answer_and_nobody_up(tmp_path: Path) -> None:
    content = os.urandom(8 * MEBIBYTE)
    path = tmp_path / "file"
    path.write_bytes(content)
    with LOCAL.open(path) as file:

        def answer(frame: bytes) -> Reply:
            return reply(b"head", file_slice(file, 0, len(content))) if frame == b"file" else reply(frame)

        with listening(answer) as harness, harness.client() as slow, harness.client() as other:
            slow.send_frames(b"file", b"file", b"file")
            harness.wait_for_requests(1)
            for _ in range(10):
                assert other.exchange(b"ping") == b"ping"
            assert harness.begun.count(b"file") == 1
            for _ in range(3):
                assert slow.receive_frame() == b"head" + content


def test_some_requests_of_a_client_that_takes_no_bytes_are_received_and_wait() -> None:
    """Linux may deliver nothing in either direction after requests have filled the socket; see ``Connection``."""
    large, frames = bytes(8 * MEBIBYTE), [b"%08d" % number * 100 for number in range(900)]
    with listening(echo) as harness, harness.client() as client:
        client.send_frames(large)
        harness.wait_for_requests(1)
        sender = threading.Thread(target=client.send_frames, args=frames)
        sender.start()
        (connection,) = harness.listener.connections
        while harness.call(lambda: connection.state) != "writing":
            time.sleep(0.01)
        received: list[int] = []
        while sender.is_alive() or len(received) < 20:
            harness.call(lambda: harness.clock.sleep_ms(500))
            received.append(harness.call(lambda: connection.request_bytes))
            time.sleep(0.01)
        assert 0 < received[-1] < sum(map(len, frames)), "some bytes, but not all of them"
        assert harness.begun == [large]
        assert [client.receive_frame() for _ in range(901)] == [large, *frames]


@pytest.mark.parametrize("with_sendfile", [True, False])
def test_parts_of_files_and_bytes_go_out_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_sendfile: bool
) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 1000)
    if not with_sendfile:

        def sendfile(*_: object) -> int:
            raise OSError(22, "Invalid argument")

        monkeypatch.setattr(os, "sendfile", sendfile)
    with LOCAL.open(path) as file:

        def answer(_frame: bytes) -> Reply:
            return reply(
                b"one", file_slice(file, 10, 200_000), b"", b"two", file_slice(file, 0, 3), file_slice(file, 5, 0)
            )

        with listening(answer) as harness, harness.client() as client:
            expected = b"one" + path.read_bytes()[10:200_010] + b"two" + bytes(range(3))
            assert client.exchange(b"?") == expected
            assert client.exchange(b"?") == expected


def test_the_bytes_of_a_file_go_out_by_sendfile_unless_they_are_encrypted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``sendfile`` sends all bytes, in any number of calls. TLS must encrypt them in memory."""
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 1000)
    counts = sendfile_counts(monkeypatch)
    with (
        LOCAL.open(path) as file,
        listening(lambda _: reply(b"head", file_slice(file, 10, 200_000))) as harness,
        harness.client() as client,
    ):
        assert client.exchange(b"?") == b"head" + path.read_bytes()[10:200_010]
    assert sum(counts) == (200_000 if ListenerHarness.security is OPEN else 0)


def test_a_file_that_became_shorter_ends_the_connection(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    with (
        LOCAL.open(path) as file,
        listening(lambda _: reply(file_slice(file, 0, 6))) as harness,
        harness.client() as client,
    ):
        client.send_frames(b"?")
        assert client.is_closed_by_broker()


@pytest.mark.parametrize("length", [-1, 1_000_001])
def test_a_length_that_is_not_allowed_closes_the_connection_with_one_line(
    caplog: pytest.LogCaptureFixture, length: int
) -> None:
    with (
        listening(echo, socket_request_max_bytes=1_000_000) as harness,
        harness.client() as client,
        harness.client() as other,
    ):
        client.socket.sendall(struct.pack(">i", length) + b"x" * 100)
        assert client.is_closed_by_broker()
        assert other.exchange(b"goes on") == b"goes on"
    lines = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(lines) == 1
    assert f"a frame announces {length} bytes, but the limit is 1000000" in lines[0].getMessage()


def test_a_service_that_fails_costs_one_connection(caplog: pytest.LogCaptureFixture) -> None:
    def answer(frame: bytes) -> Reply | Awaitable[Reply]:
        if frame == b"now":
            raise ZeroDivisionError
        return later() if frame == b"later" else reply(frame)

    async def later() -> Reply:
        raise ZeroDivisionError

    with listening(answer) as harness, harness.client() as other:
        for frame in (b"now", b"later"):
            with harness.client() as client:
                client.send_frames(frame)
                assert client.is_closed_by_broker()
        assert other.exchange(b"goes on") == b"goes on"
    assert [record.exc_info is not None for record in caplog.records] == [True, True]


def test_a_peer_that_leaves_is_forgotten_whatever_it_was_at() -> None:
    waiting: list[asyncio.Future[Reply]] = []

    def answer(_frame: bytes) -> Awaitable[Reply]:
        waiting.append(harness.loop.create_future())
        return waiting[-1]

    with listening(answer) as harness:
        for data in (b"", b"\0\0", struct.pack(">i", 100) + b"half"):
            with harness.client() as client:
                client.socket.sendall(data)
            harness.wait_for(lambda: not harness.listener.connections)
        with harness.client() as client:
            client.send_frames(b"whole")
            harness.wait_for_requests(1)
        harness.call(lambda: waiting[0].set_result(reply(b"x" * 100)))
        harness.wait_for(lambda: not harness.listener.connections)
        assert harness.listener.request_bytes == 0


@pytest.mark.parametrize("last", [b"\0\0", struct.pack(">i", 1) + b"0", struct.pack(">i", 5) + b"later"])
def test_a_peer_that_resets_the_connection_with_its_last_bytes_is_forgotten(last: bytes) -> None:
    """The bytes and the reset arrive together: a partial request, one without a response, and a delayed one."""

    async def later() -> Reply:
        await asyncio.sleep(0)
        return None

    def answer(frame: bytes) -> Reply | Awaitable[Reply]:
        if frame == b"later":
            return later()
        return None if frame == b"0" else reply(frame)

    with listening(answer) as harness, harness.client() as client:
        client.send_frames(b"its answer is not read")
        harness.wait_for_requests(1)
        is_held, may_go = threading.Event(), threading.Event()

        def hold() -> None:
            is_held.set()
            may_go.wait(PATIENCE_S)

        harness.loop.call_soon_threadsafe(hold)
        assert is_held.wait(PATIENCE_S)
        client.socket.sendall(last)
        client.socket.close()
        may_go.set()
        harness.wait_for(lambda: not harness.listener.connections)
        assert harness.listener.request_bytes == 0


def test_closing_the_listener_cancels_what_is_waited_for() -> None:
    waiting: list[asyncio.Future[Reply]] = []

    def answer(_frame: bytes) -> Awaitable[Reply]:
        waiting.append(harness.loop.create_future())
        return waiting[-1]

    with listening(answer) as harness, harness.client() as client:
        client.send_frames(b"?")
        harness.wait_for_requests(1)
        harness.call(harness.listener.close)
        assert client.is_closed_by_broker()
        harness.wait_for(lambda: waiting[0].cancelled())


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_request_that_is_cancelled_at_once_leaves_nothing_behind() -> None:
    async def later() -> Reply:
        await asyncio.sleep(3600)
        return None

    def answer(_frame: bytes) -> Awaitable[Reply]:
        harness.loop.call_soon(harness.listener.close)
        return finish(later())

    async def finish(awaitable: Awaitable[Reply]) -> Reply:
        return await awaitable

    with listening(answer) as harness, harness.client() as client:
        client.send_frames(b"?")
        assert client.is_closed_by_broker()


def test_a_file_that_is_closed_meanwhile_ends_the_connection(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    file = LOCAL.open(path)
    file.close()
    with listening(lambda _: reply(file_slice(file, 0, 5))) as harness, harness.client() as client:
        client.send_frames(b"?")
        assert client.is_closed_by_broker()


def test_a_request_goes_on_when_its_peer_has_left() -> None:
    """A change that has begun is completed. The connection exists until then."""
    waiting: list[asyncio.Future[Reply]] = []

    def answer(_frame: bytes) -> Awaitable[Reply]:
        waiting.append(harness.loop.create_future())
        return waiting[-1]

    with listening(answer) as harness:
        with harness.client() as client:
            client.send_frames(b"?")
            harness.wait_for_requests(1)
            (connection,) = harness.call(lambda: list(harness.listener.connections))
        harness.wait_for(lambda: connection.is_closed)
        assert harness.call(lambda: (waiting[0].done(), len(harness.listener.connections))) == (False, 1)
        assert harness.call(lambda: harness.listener.request_bytes) > 0
        harness.call(lambda: waiting[0].set_result(reply(b"late")))
        harness.wait_for(lambda: not harness.listener.connections)
        assert harness.call(lambda: harness.listener.request_bytes) == 0


def test_a_request_that_only_waits_ends_when_its_peer_has_left() -> None:
    begun: list[asyncio.Task[object] | None] = []

    async def wait() -> Reply:
        (connection,) = harness.listener.connections
        task = asyncio.current_task()
        assert task is not None
        begun.append(task)
        connection.client.on_connection_closed = task.cancel
        await asyncio.Event().wait()
        return None

    with listening(lambda _frame: wait()) as harness:
        with harness.client() as client:
            client.send_frames(b"?")
            harness.wait_for(lambda: bool(begun))
        harness.wait_for(lambda: not harness.listener.connections)
        (task,) = begun
        assert task is not None
        assert harness.call(task.cancelled)


def test_what_is_sent_on_while_a_request_is_under_way_waits() -> None:
    """The connection stops reading instead of checking the bytes repeatedly."""
    waiting: list[asyncio.Future[Reply]] = []

    def answer(frame: bytes) -> Reply | Awaitable[Reply]:
        if frame == b"second":
            return reply(frame)
        waiting.append(harness.loop.create_future())
        return waiting[-1]

    with listening(answer) as harness, harness.client() as client:
        client.send_frames(b"first")
        harness.wait_for_requests(1)
        (connection,) = harness.call(lambda: list(harness.listener.connections))
        client.send_frames(b"second")
        harness.wait_for(lambda: not connection.is_reading)
        assert harness.begun == [b"first"]
        harness.call(lambda: waiting[0].set_result(reply(b"1")))
        assert [client.receive_frame() for _ in range(2)] == [b"1", b"second"]
