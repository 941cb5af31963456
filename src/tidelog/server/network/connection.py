"""A client's connection: request frames in, responses out, one request at a time.

=========  =======================================  ================================================================
state      until                                    what may happen
=========  =======================================  ================================================================
reading    a frame is complete                      bytes are received; the client or the idle timeout may close it
working    its response is ready                    nothing is read: further bytes stay in the socket's buffers. A
                                                    close by the client is detected, unless it sent bytes before that
writing    the response is sent                     little is read: a slow client costs the memory of one response
                                                    and of a few requests
throttled  the throttle time of its client is over  the same
closed     (it is final)                            a later response is dropped
=========  =======================================  ================================================================

Therefore responses have the order of the requests. A client can make the broker hold one request, one response, and the
few small frames that came with one system call. A request with an immediate response passes through all states in one
callback, and so do the requests that came with it. Small responses are sent in pairs: that is cheaper than one by one,
and keeps a client busy that has several requests under way. After a few requests other connections get a turn.

While a request waits for its response, its connection is watched until more bytes come, and those are not read. A
client that closes the connection does not stop the request, as in Kafka: the changes that it has begun are finished.
Only a request that just waits, such as a delayed fetch, ends at once (``ClientConnection.on_connection_closed``). A
closing listener ends all. Until the request ends, the connection and its bytes count among the listener's.

A client's requests may fill the socket's receive buffer while a response is sent. Linux 6.18 then drops packets beyond
the window, and was seen to deliver nothing in either direction any longer. So a connection that sends nothing for a
while takes some bytes of the next requests, up to a bound.

libuv reports a socket's failure once and then watches it no longer. Therefore received bytes are read up to the error.
If a response is being sent, the send meets the error instead.
Thread rule: the event loop only. Source: Kafka's ``SocketServer``, which mutes channels to the same effect.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable
from typing import Protocol

from tidelog.model import TidelogError
from tidelog.protocol.errors import MalformedMessageError
from tidelog.protocol.frames import Frame, FrameReader
from tidelog.runtime.timers import TimerHandle, Timers
from tidelog.server.network.client_connection import CLOSE_AFTER_RESPONSE, ClientConnection
from tidelog.server.network.send_queue import Part, SendQueue

_MAX_RECEIVES = 16
"""System calls before other connections get a turn."""
_MAX_REQUESTS = 8
"""Requests with an immediate response before other connections get a turn."""
_RESPONSES_TOGETHER = 2
_STALL_MS = 500
"""The time without a sent byte after which bytes of the next requests are taken."""
_MOST_STALLED_BYTES = 512 * 1024
"""The bytes that are taken while one response is sent, approximately."""

_log = logging.getLogger(__name__)

Reply = list[Part] | None
"""A complete frame with its length prefix, or None if the request gets no response."""


class Service(Protocol):
    """The handler of a connection's requests."""

    def begin(self, frame: Frame, client: ClientConnection) -> Reply | Awaitable[Reply]:
        """Return the response, or an awaitable of it. An error, raised at once or when awaited, closes the connection
        with one line in the log. The log has a stack trace unless it is a TidelogError."""
        ...


class Transport(Protocol):
    """The part of a socket that a connection uses. A socket implements it, and so does ``TlsStream``."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """Receive the available bytes that fit, and return their number; 0 if the client has closed the connection.
        Raise BlockingIOError if there are none."""
        ...

    def recv(self, size: int, flags: int, /) -> bytes: ...

    def close(self) -> None: ...


class ConnectionOwner(Protocol):
    """The part of a listener that its connections use."""

    loop: asyncio.AbstractEventLoop
    timers: Timers
    scratch: memoryview
    """The receive buffer that all connections share. It is empty whenever a connection gets its turn."""

    def has_room(self, connection: Connection) -> bool:
        """Return True if a new request may begin. Otherwise ``connection.resume`` is called once it may."""
        ...

    def add_request_bytes(self, count: int) -> None:
        """Add ``count``, which may be negative, to the bytes of requests in memory."""
        ...

    def connection_ended(self, connection: Connection) -> None:
        """Forget a connection that is closed and has no request under way."""
        ...

    def connection_rejected(self, connection: Connection) -> None:
        """Record that a connection was closed because of the bytes its client sent."""
        ...


class Connection:
    __slots__ = (
        "_descriptor",
        "_frames",
        "_has_turn",
        "_is_reading",
        "_is_writing",
        "_owner",
        "_pending",
        "_request_bytes",
        "_send_queue",
        "_service",
        "_socket",
        "_stall_timer",
        "_stalled_bytes",
        "_throttle_timer",
        "client",
        "is_closed",
        "last_active_ms",
        "opened_ms",
    )

    def __init__(
        self,
        sock: socket.socket,
        client: ClientConnection,
        owner: ConnectionOwner,
        service: Service,
        max_request_bytes: int,
    ) -> None:
        """Take over the connected, non-blocking socket ``sock`` and begin to read."""
        self._socket: Transport = sock
        self._descriptor = sock.fileno()
        self._owner = owner
        self._service = service
        self._frames = FrameReader(max_request_bytes)
        self._send_queue = SendQueue(sock)
        self._pending: asyncio.Future[Reply] | None = None
        self._throttle_timer: TimerHandle | None = None
        self._stall_timer: TimerHandle | None = None
        self._request_bytes = self._stalled_bytes = 0
        self._is_reading = self._is_writing = self._has_turn = False
        self.client = client
        client.following = self._frames.complete
        self.is_closed = False
        self.last_active_ms = self.opened_ms = owner.timers.monotonic_ms()
        self._start_reading()

    @property
    def is_idle(self) -> bool:
        """True if it waits for its client: no request is under way, and it is not throttled."""
        return self._pending is None and self._throttle_timer is None

    @property
    def is_reading(self) -> bool:
        """True if it watches for bytes, or for a close by the client."""
        return self._is_reading

    @property
    def state(self) -> str:
        """The name of its state in the module's table."""
        if self.is_closed:
            return "closed"
        if self._throttle_timer is not None:
            return "throttled"
        if self._is_writing:
            return "writing"
        return "reading" if self._pending is None else "working"

    @property
    def request_bytes(self) -> int:
        """The bytes of its request."""
        return self._request_bytes

    def hand_over(self, service: Service, max_request_bytes: int) -> None:
        """Use another service and another request size limit from the next received bytes on."""
        self._service = service
        self._frames.max_bytes = max_request_bytes

    def resume(self) -> None:
        """Read again after there was no room for a request."""
        if not self.is_closed:
            self._start_reading()

    def close(self) -> None:
        """Close the connection; idempotent. A request under way continues, unless it has set
        ``ClientConnection.on_connection_closed``."""
        if self.is_closed:
            return
        self.is_closed = True
        self._stop_reading()
        self._stop_writing()
        self._socket.close()
        self._send_queue.clear()
        if self._throttle_timer is not None:
            self._throttle_timer.cancel()
        if self._pending is None:
            self._release()
        elif self.client.on_connection_closed is not None:
            self.client.on_connection_closed()

    def abort(self) -> None:
        """Close the connection and cancel a request under way."""
        self.close()
        if self._pending is not None:
            # Cancel in a later turn: a task that is cancelled before its first step never awaits its coroutine.
            self._owner.loop.call_soon(self._pending.cancel)

    def _release(self) -> None:
        del self._service  # break the reference cycle, so that the connection is freed immediately
        self._set_request_bytes(0)
        self._owner.connection_ended(self)

    # --- reading ---

    def _start_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._owner.loop.add_reader(self._descriptor, self._on_readable)

    def _stop_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._owner.loop.remove_reader(self._descriptor)

    def _read_next_turn(self) -> None:
        """Read in the loop's next turn, even if the socket does not report bytes."""
        if not self._has_turn:
            self._has_turn = True
            self._owner.loop.call_soon(self._read_turn)

    def _read_turn(self) -> None:
        self._has_turn = False
        if self._is_reading:
            self._on_readable()

    def _on_readable(self) -> None:
        if self._pending is not None:
            self._detect_close()
            return
        if self._request_bytes == 0 and not self._owner.has_room(self):
            self._stop_reading()
            return
        try:
            frame = self._receive()
        except (OSError, EOFError):
            self.close()
            return
        except MalformedMessageError as error:
            self._reject(error)
            return
        if frame is None:
            self._set_request_bytes(self._frames.held_bytes)
        else:
            self.last_active_ms = self._owner.timers.monotonic_ms()
            self._handle(frame)

    def _detect_close(self) -> None:
        """Detect a close by the client while a request is under way. Bytes that the client has sent stay in the socket
        and hide a later close, so the watch stops then."""
        try:
            has_left = not self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            has_left = True
        if has_left:
            self.close()
        else:
            self._stop_reading()

    def _receive(self) -> Frame | None:
        """Return a frame if one is complete. Raise OSError or EOFError if the client has closed the connection."""
        for _ in range(_MAX_RECEIVES):
            try:
                self._receive_once()
            except BlockingIOError:
                return None
            if (frame := self._frames.next_frame()) is not None:
                return frame
        self._read_next_turn()
        return None

    def _receive_once(self) -> int:
        """Receive bytes by one system call, and return their number. Raise OSError, BlockingIOError or EOFError."""
        frames = self._frames
        space = frames.space()
        try:
            count = self._socket.recv_into(self._owner.scratch if space is None else space)
        finally:
            if space is not None:
                space.release()
        if count == 0:
            raise EOFError
        if space is None:
            frames.receive(self._owner.scratch[:count])
        else:
            frames.filled(count)
        return count

    def _set_request_bytes(self, held_bytes: int) -> None:
        if held_bytes != self._request_bytes:
            self._owner.add_request_bytes(held_bytes - self._request_bytes)
            self._request_bytes = held_bytes

    # --- working ---

    def _handle(self, frame: Frame | None) -> None:
        begin, client, frames, output = self._service.begin, self.client, self._frames, self._send_queue
        turns = _MAX_REQUESTS
        self._set_request_bytes(frames.held_bytes)
        while frame is not None:
            try:
                reply = begin(frame, client)
            except Exception as error:
                self._send_out()
                self._reject(error)
                return
            if isinstance(reply, list):
                output.add(reply)
            elif reply is not None:
                self._wait_for(reply, len(frame))
                return
            else:
                self._read_next_turn()
            if len(output) >= _RESPONSES_TOGETHER and not self._send_out():
                return
            turns -= 1
            frame = None if client.throttle_ms or self.is_closed or not turns else frames.next_frame()
        self._send()

    def _wait_for(self, reply: Awaitable[Reply], frame_bytes: int) -> None:
        """Wait for the response to a request of ``frame_bytes``. The responses to earlier requests are sent first."""
        self._set_request_bytes(self._frames.held_bytes + frame_bytes)
        self._pending = asyncio.ensure_future(reply, loop=self._owner.loop)
        self._pending.add_done_callback(self._on_done)
        self._send_out()
        if not self._is_writing and not self.is_closed:
            self._start_reading()

    def _on_done(self, pending: asyncio.Future[Reply]) -> None:
        self._pending = None
        error = None if pending.cancelled() else pending.exception()
        if self.is_closed:
            self._release()
        elif pending.cancelled():
            self.close()
        elif error is not None:
            self._reject(error)
        else:
            self._set_request_bytes(self._frames.held_bytes)
            reply = pending.result()
            if reply is None:
                self._read_next_turn()
            else:
                self._send_queue.add(reply)
            self._send()

    def _reject(self, error: BaseException) -> None:
        trace = None if isinstance(error, TidelogError) else error
        _log.warning("Connection of %s closed: %s", self.client, error, exc_info=trace)
        self._owner.connection_rejected(self)
        self.close()

    # --- writing ---

    def _send(self) -> None:
        """Send the pending bytes, then continue."""
        if not self._send_out():
            return
        if self._pending is None:
            self._throttle()
        else:
            self._start_reading()

    def _send_out(self) -> bool:
        """Return True if everything is sent. Otherwise the rest is sent when the socket is writable, before more is
        read."""
        try:
            is_sent = self._send_queue.send()
        except (OSError, TidelogError):  # the client closed the connection, or the file failed
            self.close()
            return False
        if is_sent:
            self._stop_writing()
        elif not self._is_writing:
            self._stop_reading()
            self._is_writing = True
            self._owner.loop.add_writer(self._descriptor, self._on_writable)
            self._stall_timer = self._owner.timers.call_later(_STALL_MS, self._end_stall)
        return is_sent

    def _end_stall(self) -> None:
        """Take bytes of the next requests if nothing was sent for a while."""
        self._stall_timer = None
        try:
            if self._owner.timers.monotonic_ms() - self.last_active_ms >= _STALL_MS:
                count = self._receive_once()
                self._stalled_bytes += count
                self._set_request_bytes(self._request_bytes + count)
        except BlockingIOError:
            pass
        except (OSError, EOFError):  # the client has closed its side, or the send will meet the error
            return
        except MalformedMessageError as error:
            self._reject(error)
            return
        if self._stalled_bytes < _MOST_STALLED_BYTES:
            self._stall_timer = self._owner.timers.call_later(_STALL_MS, self._end_stall)

    def _on_writable(self) -> None:
        self.last_active_ms = self._owner.timers.monotonic_ms()
        self._send()

    def _stop_writing(self) -> None:
        if self._is_writing:
            self._is_writing = False
            self._owner.loop.remove_writer(self._descriptor)
            self._stalled_bytes = 0
            if self._stall_timer is not None:
                self._stall_timer.cancel()

    def _throttle(self) -> None:
        """Throttle the connection for the quota's time, then continue."""
        if not self.client.throttle_ms:
            self._next_request()
            return
        if self.client.throttle_ms == CLOSE_AFTER_RESPONSE:
            self.close()
            return
        self._stop_reading()
        self._throttle_timer = self._owner.timers.call_later(self.client.throttle_ms, self._end_throttle)
        self.client.throttle_ms = 0

    def _end_throttle(self) -> None:
        self._throttle_timer = None
        self.last_active_ms = self._owner.timers.monotonic_ms()
        self._next_request()

    def _next_request(self) -> None:
        """Go on to the next request: a frame that was received with the last one, or one to read."""
        frame = self._frames.next_frame()
        if frame is None:
            self._start_reading()
        else:
            self._stop_reading()
            self._owner.loop.call_soon(self._take_turn, frame)

    def _take_turn(self, frame: Frame) -> None:
        if not self.is_closed:
            self._handle(frame)
