"""The driver of a ``BrokerLifecycle``: registrations and heartbeats go to the active controller.

=======================================  ==============================================================================
response                                 effect
=======================================  ==============================================================================
an error, or none                        a line in the log, once for each text, and the core tries again
to a registration: another cluster, or   the broker stops: no later attempt can succeed. Kafka 4.4 tries again until
a feature at an unsupported level        ``initial.broker.registration.timeout.ms``
=======================================  ==============================================================================

Another broker with this node's id is an error of the first row. After a crash, the controller knows the previous
incarnation of this broker until its session expires. Thread rule: the event loop only.
Source: Kafka's ``BrokerLifecycleManager``, ``BrokerRegistrationTracker``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tidelog.client.model.errors import ClientError, RequestTimedOutError
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode, code_of
from tidelog.replication import BrokerLifecycle, BrokerState
from tidelog.replication.broker_lifecycle import (
    EnterState,
    LifecycleCommand,
    SendHeartbeat,
    SendRegistration,
    StopBroker,
)
from tidelog.replication.heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.replication.registration_request import BrokerRegistrationRequest
from tidelog.runtime.repeated_errors import RepeatedErrors
from tidelog.server.metadata.image import METADATA_VERSION, MetadataChange
from tidelog.server.metadata.observer.controller_channel import ControllerChannel
from tidelog.server.metadata.observer.core_driver import CoreDriver
from tidelog.server.metadata.published_metadata import PublishedMetadata

_log: Final = logging.getLogger(__name__)
_PURPOSE: Final = "heartbeat"
_FINAL: Final = {
    ErrorCode.INCONSISTENT_CLUSTER_ID: "the controller is of another cluster than this broker's log directories",
    ErrorCode.UNSUPPORTED_VERSION: (
        "a feature of the cluster is at a level that this release does not support (kafka-features describe)"
    ),
}
_REASONS: Final = {
    **_FINAL,
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: (
        "another broker has this node.id, or the session of this broker's previous run has not expired yet"
        " (broker.session.timeout.ms)"
    ),
    ErrorCode.INVALID_REGISTRATION: (
        "the controller does not accept a log directory of this broker, for example because another broker has"
        " registered the directory.id of its meta.properties: a copied directory needs a directory.id of its own"
    ),
    ErrorCode.STALE_BROKER_EPOCH: "the controller knows another incarnation of this broker",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "the controller does not know this broker",
}


class LifecycleDriver(CoreDriver[LifecycleCommand]):
    def __init__(
        self,
        core: BrokerLifecycle,
        channel: ControllerChannel,
        published: PublishedMetadata,
        *,
        node_id: int,
        monotonic_ms: Callable[[], int],
        on_stop: Callable[[str], None],
    ) -> None:
        """Create the driver. It calls ``on_stop`` with the reason for which the broker must not go on."""
        super().__init__(monotonic_ms)
        self.core = core
        self._channel = channel
        self._published = published
        self._node_id = node_id
        self._on_stop = on_stop
        self._forget_failures()
        self._changed = asyncio.Event()

    @property
    def _due_ms(self) -> int | None:
        return self.core.next_tick_ms

    def _tick(self, now_ms: int) -> Iterable[LifecycleCommand]:
        self.core.metadata_offset = self._published.end_offset - 1
        return self.core.tick(now_ms)

    async def reach(self, *states: BrokerState) -> None:
        """Return once the broker is in one of the states."""
        while self.core.state not in states:
            await self._changed.wait()

    async def be_visible(self) -> None:
        """Return once the published image has this broker unfenced. Until then its clients would see no brokers."""
        while (own := self._published.image.brokers.get(self._node_id)) is None or own.is_fenced:
            await self._changed.wait()

    def follow(self, change: MetadataChange) -> None:
        """See a change of this broker's registration, and of the metadata.version; a listener of the metadata."""
        if METADATA_VERSION in change.features or self._node_id in change.brokers:
            image = self._published.image
            own = image.brokers.get(self._node_id)
            log_dirs, version = None if own is None else own.log_dirs, image.metadata_version
            self.post(lambda now_ms: self.core.see_registration(log_dirs, version, now_ms))
            self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _carry_out(self, command: LifecycleCommand) -> Iterable[LifecycleCommand]:
        match command:
            case SendRegistration(number, request, deadline_ms):
                self._spawn(self._register(number, request, deadline_ms))
            case SendHeartbeat(number, heartbeat, deadline_ms):
                self._spawn(self._send_heartbeat(number, heartbeat, deadline_ms))
            case EnterState(state):
                _log.info("The broker is in state %s", state.name)
                self._notify()
            case StopBroker(reason):
                self._on_stop(reason + (f" ({self._last_error})" if self._last_error else ""))
        return ()

    async def _register(self, number: int, request: BrokerRegistrationRequest, deadline_ms: int) -> None:
        response = await self._send(ApiKey.BROKER_REGISTRATION, registration_values(request), number, deadline_ms)
        if response is None:
            return
        error = code_of(response.error_code)
        if error in _FINAL:
            self._on_stop(f"this broker cannot register: {_FINAL[error]} ({error.name})")
        epoch = response.broker_epoch
        if error is ErrorCode.NONE:
            _log.info("Broker %d is registered in broker epoch %d", self._node_id, epoch)
        self.post(lambda now_ms: self.core.registration_response(number, error, epoch, now_ms))

    async def _send_heartbeat(self, number: int, request: BrokerHeartbeatRequest, deadline_ms: int) -> None:
        response = await self._send(ApiKey.BROKER_HEARTBEAT, heartbeat_values(request), number, deadline_ms)
        if response is None:
            return
        error = code_of(response.error_code)
        found = BrokerHeartbeatResponse(
            is_caught_up=response.is_caught_up, is_fenced=response.is_fenced, should_shut_down=response.should_shut_down
        )
        self.post(lambda now_ms: self.core.heartbeat_response(number, error, found, now_ms))

    async def _send(self, api: ApiKey, values: Mapping[str, Any], number: int, deadline_ms: int) -> Any:
        """Return the response of the active controller. Without one, post the failure and return None."""
        timeout_ms = max(1, deadline_ms - self._monotonic_ms())
        try:
            response = await self._channel.send(api, values, purpose=_PURPOSE, timeout_ms=timeout_ms)
        except ClientError as error:
            late = "the controller has not responded within broker.heartbeat.interval.ms"
            self._note(api, late if isinstance(error, RequestTimedOutError) else error.message)
            self.post(lambda now_ms: self.core.fail_request(number, now_ms))
            return None
        error_code = code_of(response.error_code)
        if error_code is not ErrorCode.NONE:
            self._note(api, _REASONS.get(error_code, error_code.name))
        elif self._last_error:
            _log.info("The controller responds again to broker %d", self._node_id)
            self._forget_failures()
        return response

    def _forget_failures(self) -> None:
        """Let the next failure have a line in the log again."""
        self._failures = RepeatedErrors(_log, "%s: %s")
        self._last_error = ""

    def _note(self, api: ApiKey, reason: str) -> None:
        self._last_error = reason
        self._failures.note(
            f"The {api.title} of broker {self._node_id} failed, and is tried again", ClientError(reason)
        )


def registration_values(request: BrokerRegistrationRequest) -> Mapping[str, Any]:
    return {
        "broker_id": request.broker_id,
        "cluster_id": request.cluster_id,
        "incarnation_id": request.incarnation_id,
        "listeners": [one._asdict() for one in request.listeners],
        "features": [
            {"name": name, "min_supported_version": levels.oldest, "max_supported_version": levels.latest}
            for name, levels in request.features.items()
        ],
        "rack": request.rack,
        "log_dirs": request.log_dirs,
        "previous_broker_epoch": request.previous_broker_epoch,
    }


def heartbeat_values(request: BrokerHeartbeatRequest) -> Mapping[str, Any]:
    cordoned = request.cordoned_dirs
    return {
        "broker_id": request.broker_id,
        "broker_epoch": request.broker_epoch,
        "current_metadata_offset": request.metadata_offset,
        "want_fence": request.wants_fence,
        "want_shut_down": request.wants_shutdown,
        "offline_log_dirs": sorted(request.offline_dirs),
        "cordoned_log_dirs": None if cordoned is None else sorted(cordoned),
    }
