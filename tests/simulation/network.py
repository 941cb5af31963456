"""The network between the brokers and the controller: it loses, reorders, doubles, delays and blocks messages.

Every message waits in one list until the simulation delivers it, in any sequence. A request has a correlation id. The
sender accepts one response to it, as a client of one connection does: a second response, or one after the sender has
given up, finds no request. A lost request or response becomes a *failure*, which the sender gets like a response: its
connection was closed, or its request timed out.

A way from one node to another can be blocked. Then nothing that is sent on it arrives.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.replication.registration_request import BrokerRegistrationRequest

CONTROLLER = 0
"""The node id of the controller. Brokers count from 1."""


class Message(NamedTuple):
    """A request, or the response to it. ``body`` None in a response is a failure."""

    sender: int
    receiver: int
    correlation_id: int
    is_response: bool
    body: object

    @property
    def is_failure(self) -> bool:
        return self.is_response and self.body is None


class Network:
    def __init__(self) -> None:
        self.in_flight: list[Message] = []
        self._held: list[Message] = []
        """Messages that arrive only after ``release``, long after later ones."""
        self._blocked: set[tuple[int, int]] = set()
        self._last_id = 0

    def request(self, sender: int, receiver: int, body: object) -> int:
        """Send a request and return its correlation id."""
        self._last_id += 1
        self._send(Message(sender, receiver, self._last_id, False, body))
        return self._last_id

    def respond(self, request: Message, body: object) -> None:
        self._send(Message(request.receiver, request.sender, request.correlation_id, True, body))

    def take(self, number: int) -> Message:
        """Remove a message and return it."""
        return self.in_flight.pop(number)

    @property
    def under_way(self) -> list[Message]:
        """All messages that have not arrived, with the delayed ones."""
        return [*self._held, *self.in_flight]

    def remove(self, message: Message) -> None:
        """Remove a message that is under way."""
        (self._held if message in self._held else self.in_flight).remove(message)

    def lose(self, number: int) -> Message:
        """Lose a message. The sender of the request gets a failure, at any later time."""
        message = self.in_flight.pop(number)
        self._fail(message)
        return message

    def hold(self, number: int) -> None:
        """Delay a message until ``release``."""
        self._held.append(self.in_flight.pop(number))

    def release(self) -> None:
        self.in_flight += self._held
        self._held = []

    def give_up(self, number: int) -> None:
        """Let the sender of a request stop waiting. The request still arrives later."""
        requests = [message for message in (*self._held, *self.in_flight) if not message.is_response]
        if requests:
            self._fail(requests[number % len(requests)])

    # --- blocked ways ---

    def block(self, sender: int, receiver: int) -> None:
        """Lose everything from ``sender`` to ``receiver`` until ``heal``, also messages under way."""
        self._blocked.add((sender, receiver))
        for message in [one for one in self.in_flight if (one.sender, one.receiver) == (sender, receiver)]:
            if not message.is_failure:
                self.in_flight.remove(message)
                self._fail(message)

    def heal(self) -> None:
        self._blocked.clear()

    @property
    def is_whole(self) -> bool:
        return not self._blocked

    def passes(self, sender: int, receiver: int) -> bool:
        return (sender, receiver) not in self._blocked

    def connects(self, one: int, other: int) -> bool:
        """Return True if requests and responses pass."""
        return (one, other) not in self._blocked and (other, one) not in self._blocked

    def forget(self, node: int) -> None:
        """Drop the messages to a crashed node. Requests fail; those of the node itself may still arrive.

        Its registration does not arrive any more. A late one would replace the registration of the node's next process,
        which would get STALE_BROKER_EPOCH forever: Kafka's brokers never register again after that error.
        """
        for messages in (self._held, self.in_flight):
            for message in [one for one in messages if one.sender == node and not one.is_response]:
                if isinstance(message.body, BrokerRegistrationRequest):
                    messages.remove(message)
            for message in [one for one in messages if one.receiver == node]:
                messages.remove(message)
                if not message.is_response:
                    self._fail(message)

    # --- inside ---

    def _send(self, message: Message) -> None:
        if (message.sender, message.receiver) in self._blocked:
            self._fail(message)
        else:
            self.in_flight.append(message)

    def _fail(self, lost: Message) -> None:
        """Let the sender of the request know that there will be no response."""
        if lost.is_response:
            self.in_flight.append(lost._replace(body=None))
        else:
            self.in_flight.append(Message(lost.receiver, lost.sender, lost.correlation_id, True, None))
