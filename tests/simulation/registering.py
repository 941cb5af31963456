"""The driver of a broker's ``BrokerLifecycle``: registration, heartbeats, and the end of a controlled shutdown."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from simulation.requests import Registered
from tidelog.protocol.errors import ErrorCode
from tidelog.replication import BrokerLifecycle, BrokerState, LifecycleCommand, LifecycleSettings
from tidelog.replication.broker_lifecycle import EnterState, SendHeartbeat, SendRegistration
from tidelog.replication.heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.replication.registration_request import NO_BROKER_EPOCH, BrokerRegistrationRequest

_SETTINGS = LifecycleSettings()


class RegisteringDriver:
    """The life of an incarnation of a broker, towards the controller."""

    def __init__(
        self,
        node_id: int,
        incarnation: uuid.UUID,
        previous_epoch: int | None,
        send: Callable[[BrokerRegistrationRequest | BrokerHeartbeatRequest, RegisteringDriver, int], None],
        entered: Callable[[BrokerState], None],
    ) -> None:
        """``send`` takes a request, its driver and its number. ``entered`` is called with each new state."""
        self.core = BrokerLifecycle(
            BrokerRegistrationRequest(
                broker_id=node_id,
                cluster_id="cluster",
                incarnation_id=incarnation,
                listeners=(),
                features={},
                log_dirs=(directory_of(node_id),),
                previous_broker_epoch=NO_BROKER_EPOCH if previous_epoch is None else previous_epoch,
            ),
            _SETTINGS,
        )
        self._send = send
        self._entered = entered

    def run(self, commands: list[LifecycleCommand]) -> None:
        for command in commands:
            if isinstance(command, SendRegistration | SendHeartbeat):
                self._send(command.request, self, command.number)
            elif isinstance(command, EnterState):
                self._entered(command.state)

    def tick(self, now_ms: int) -> None:
        due = self.core.next_tick_ms
        if due is not None and due <= now_ms:
            self.run(self.core.tick(now_ms))

    def respond(self, number: int, body: object, now_ms: int) -> None:
        if isinstance(body, Registered):
            commands = self.core.registration_response(number, body.error, body.epoch, now_ms)
        elif isinstance(body, BrokerHeartbeatResponse):
            commands = self.core.heartbeat_response(number, ErrorCode.NONE, body, now_ms)
        else:
            commands = self.core.fail_request(number, now_ms)
        self.run(commands)


def directory_of(node_id: int) -> uuid.UUID:
    """Return the id of a broker's log directory."""
    return uuid.UUID(int=1000 + node_id)
