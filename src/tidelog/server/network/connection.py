"""One connection: frames in, answers out, one request at a time.

========  =======================================  =================================================================
state     until                                    what may happen
========  =======================================  =================================================================
reading   a frame is whole                         bytes are received; the peer or the idle time-out closes
working   its answer is there                      nothing is read: what the peer sends on waits in its own buffers;
                                                   that it has left is seen, unless it has sent on before
writing   the answer is sent                       nothing is read either: a slow reader costs one answer's memory
held      the time is over that its peer's quota   the same
back      costs it
closed    for good                                 an answer that comes later is dropped
========  =======================================  =================================================================

So answers are in the order of requests, and what a peer can make the broker hold is one request and one answer, beside
the few small frames that came with one system call. A request that is answered at once passes through all states within
one callback, and so do those that came with it: small answers go out two by two, which costs less than one by one and
keeps a client busy that has several requests under way. After a few of them other connections have their turn.

While a request waits for its answer, its connection is watched until more comes, which is left where it is. A peer that
leaves meanwhile does not stop it, as in Kafka: what it has begun to change is changed. Only one that does nothing but
wait for its peer's sake ends at once (``Peer.on_gone``), and all of them when the listener ends. Until then the
connection counts among the listener's, and so do its bytes.

libuv reports once that a socket has failed, and watches it no longer. Therefore what has come is received up to the
error, unless an answer is sent, which meets the error as well.
Called by: Listener. Thread rule: the loop's. Source: Kafka's ``SocketServer``, which mutes channels to the same effect.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable
from typing import Protocol

from tidelog.model import TidelogError
from tidelog.protocol.errors import MalformedMessageError
from tidelog.protocol.frames import FrameReader
from tidelog.server.network.file_slice import Part
from tidelog.server.network.output import Output
from tidelog.server.network.peer import FOR_EVER, Peer
from tidelog.server.timers import TimerHandle, Timers

_RECEIVES_AT_ONCE = 16
"""System calls until other connections have their turn."""
_REQUESTS_AT_ONCE = 8
"""Requests that are answered at once, the same."""
_ANSWERS_TOGETHER = 2

_log = logging.getLogger(__name__)

Reply = list[Part] | None
"""A whole frame, length and all; None where the request wants no answer."""


class Service(Protocol):
    """What answers requests."""

    def begin(self, frame: bytearray, peer: Peer) -> Reply | Awaitable[Reply]:
        """An error, now or when it is awaited: the connection is closed with one line in the log, and a stack trace
        where it is no TidelogError."""
        ...


class Transport(Protocol):
    """What of a socket a connection uses: a socket, or one with TLS around it."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """As many bytes as there are, unless they do not fit; 0: the peer has left. BlockingIOError: there are none."""
        ...

    def recv(self, size: int, flags: int, /) -> bytes: ...

    def close(self) -> None: ...


class ConnectionOwner(Protocol):
    """What a connection needs of the listener that accepted it."""

    loop: asyncio.AbstractEventLoop
    timers: Timers
    scratch: memoryview
    """Room to receive into, one for all connections: it is empty whenever one of them has its turn."""

    def has_room(self, connection: Connection) -> bool:
        """Whether a request may be begun; False: ``connection`` is told to ``resume`` when it may."""
        ...

    def hold(self, count: int) -> None:
        """So many bytes more, or less, of requests are held."""
        ...

    def forget(self, connection: Connection) -> None:
        """It is closed, and nothing of it is under way any more."""
        ...

    def refused(self, connection: Connection) -> None:
        """It is closed for what its peer sent."""
        ...


class Connection:
    __slots__ = (
        "_descriptor",
        "_frames",
        "_held_back",
        "_held_bytes",
        "_is_looking",
        "_is_reading",
        "_is_writing",
        "_output",
        "_owner",
        "_pending",
        "_service",
        "_socket",
        "is_closed",
        "last_active_ms",
        "peer",
    )

    def __init__(
        self, sock: socket.socket, peer: Peer, owner: ConnectionOwner, service: Service, max_request_bytes: int
    ) -> None:
        """``sock``: connected, not blocking; the connection's from here on. Begins to read."""
        self._socket: Transport = sock
        self._descriptor = sock.fileno()
        self._owner = owner
        self._service = service
        self._frames = FrameReader(max_request_bytes)
        self._output = Output(sock)
        self._pending: asyncio.Future[Reply] | None = None
        self._held_back: TimerHandle | None = None
        self._held_bytes = 0
        self._is_reading = self._is_writing = self._is_looking = False
        self.peer = peer
        self.is_closed = False
        self.last_active_ms = owner.timers.monotonic_ms()
        self._read_on()

    @property
    def is_idle(self) -> bool:
        """It waits for its peer, not the other way round."""
        return self._pending is None and self._held_back is None

    @property
    def is_reading(self) -> bool:
        """What its peer sends, or that it leaves, is seen."""
        return self._is_reading

    @property
    def is_writing(self) -> bool:
        """Its peer does not take what is sent."""
        return self._is_writing

    @property
    def held_bytes(self) -> int:
        """Of its request."""
        return self._held_bytes

    def hand_over(self, service: Service, max_request_bytes: int) -> None:
        """Another service answers, and requests may have another size, from what is received next on."""
        self._service = service
        self._frames.max_bytes = max_request_bytes

    def resume(self) -> None:
        """Read again, after there was no room."""
        if not self.is_closed:
            self._read_on()

    def close(self) -> None:
        """Idempotent; a request under way goes on, unless it says otherwise."""
        if self.is_closed:
            return
        self.is_closed = True
        self._stop_reading()
        self._stop_writing()
        self._socket.close()
        self._output.clear()
        if self._held_back is not None:
            self._held_back.cancel()
        if self._pending is None:
            self._let_go()
        elif self.peer.on_gone is not None:
            self.peer.on_gone()

    def abort(self) -> None:
        """Close it; a request under way is cancelled, whatever it is at."""
        self.close()
        if self._pending is not None:
            # In its turn: a task that ends before its first step never awaits what it was given.
            self._owner.loop.call_soon(self._pending.cancel)

    def _let_go(self) -> None:
        del self._service  # it may know this connection: what is of no use is to go at once
        self._account(0)
        self._owner.forget(self)

    # --- reading ---

    def _read_on(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._owner.loop.add_reader(self._descriptor, self._on_readable)

    def _stop_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._owner.loop.remove_reader(self._descriptor)

    def _look_on(self) -> None:
        """Read in the loop's next turn, whether or not the socket says that there is something."""
        if not self._is_looking:
            self._is_looking = True
            self._owner.loop.call_soon(self._look)

    def _look(self) -> None:
        self._is_looking = False
        if self._is_reading:
            self._on_readable()

    def _on_readable(self) -> None:
        if self._pending is not None:
            self._look_for_the_end()
            return
        if self._held_bytes == 0 and not self._owner.has_room(self):
            self._stop_reading()
            return
        try:
            frame = self._receive()
        except (OSError, EOFError):
            self.close()
            return
        except MalformedMessageError as error:
            self._refuse(error)
            return
        if frame is None:
            self._account(self._frames.held_bytes)
        else:
            self.last_active_ms = self._owner.timers.monotonic_ms()
            self._work(frame)

    def _look_for_the_end(self) -> None:
        """While a request is under way. What the peer has sent on stays where it is, and hides whether more comes."""
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

    def _receive(self) -> bytearray | None:
        """A frame, if one is whole. OSError, EOFError: the peer is gone."""
        frames, sock = self._frames, self._socket
        for _ in range(_RECEIVES_AT_ONCE):
            space = frames.space()
            room = self._owner.scratch if space is None else space
            try:
                count = sock.recv_into(room)
            except BlockingIOError:
                return None
            finally:
                if space is not None:
                    space.release()
            if count == 0:
                raise EOFError
            if space is None:
                frames.receive(self._owner.scratch[:count])
            else:
                frames.filled(count)
            if (frame := frames.next_frame()) is not None:
                return frame
        self._look_on()
        return None

    def _account(self, held_bytes: int) -> None:
        if held_bytes != self._held_bytes:
            self._owner.hold(held_bytes - self._held_bytes)
            self._held_bytes = held_bytes

    # --- working ---

    def _work(self, frame: bytearray | None) -> None:
        begin, peer, frames, output = self._service.begin, self.peer, self._frames, self._output
        turns = _REQUESTS_AT_ONCE
        self._account(frames.held_bytes)
        while frame is not None:
            try:
                reply = begin(frame, peer)
            except Exception as error:
                self._send_out()
                self._refuse(error)
                return
            if isinstance(reply, list):
                output.add(reply)
            elif reply is not None:
                self._wait_for(reply, len(frame))
                return
            else:
                self._look_on()
            if len(output) >= _ANSWERS_TOGETHER and not self._send_out():
                return
            turns -= 1
            frame = None if peer.held_back_ms or self.is_closed or not turns else frames.next_frame()
        self._send()

    def _wait_for(self, reply: Awaitable[Reply], frame_bytes: int) -> None:
        """For the answer to a request of so many bytes; those to the requests before it go first."""
        self._account(self._frames.held_bytes + frame_bytes)
        self._pending = asyncio.ensure_future(reply, loop=self._owner.loop)
        self._pending.add_done_callback(self._on_done)
        self._send_out()
        if not self._is_writing and not self.is_closed:
            self._read_on()

    def _on_done(self, pending: asyncio.Future[Reply]) -> None:
        self._pending = None
        error = None if pending.cancelled() else pending.exception()
        if self.is_closed:
            self._let_go()
        elif pending.cancelled():
            self.close()
        elif error is not None:
            self._refuse(error)
        else:
            self._account(self._frames.held_bytes)
            reply = pending.result()
            if reply is None:
                self._look_on()
            else:
                self._output.add(reply)
            self._send()

    def _refuse(self, error: BaseException) -> None:
        trace = None if isinstance(error, TidelogError) else error
        _log.warning("The connection of %s is closed: %s", self.peer, error, exc_info=trace)
        self._owner.refused(self)
        self.close()

    # --- writing ---

    def _send(self) -> None:
        """What there is to send; then go on."""
        if not self._send_out():
            return
        if self._pending is None:
            self._be_held_back()
        else:
            self._read_on()

    def _send_out(self) -> bool:
        """Whether all there is to send is sent; if not, it goes when the socket takes more, before anything is read."""
        try:
            is_sent = self._output.send()
        except (OSError, TidelogError):  # the peer is gone; or the file is
            self.close()
            return False
        if is_sent:
            self._stop_writing()
        elif not self._is_writing:
            self._stop_reading()
            self._is_writing = True
            self._owner.loop.add_writer(self._descriptor, self._on_writable)
        return is_sent

    def _on_writable(self) -> None:
        self.last_active_ms = self._owner.timers.monotonic_ms()
        self._send()

    def _stop_writing(self) -> None:
        if self._is_writing:
            self._is_writing = False
            self._owner.loop.remove_writer(self._descriptor)

    def _be_held_back(self) -> None:
        """For as long as the answer's quota says; then go on."""
        if not self.peer.held_back_ms:
            self._go_on()
            return
        if self.peer.held_back_ms == FOR_EVER:
            self.close()
            return
        self._stop_reading()
        self._held_back = self._owner.timers.call_later(self.peer.held_back_ms, self._be_let_go)
        self.peer.held_back_ms = 0

    def _be_let_go(self) -> None:
        self._held_back = None
        self.last_active_ms = self._owner.timers.monotonic_ms()
        self._go_on()

    def _go_on(self) -> None:
        """To the next request: one that came with the last, or one to read."""
        frame = self._frames.next_frame()
        if frame is None:
            self._read_on()
        else:
            self._stop_reading()
            self._owner.loop.call_soon(self._take_turn, frame)

    def _take_turn(self, frame: bytearray) -> None:
        if not self.is_closed:
            self._work(frame)
