"""The brokers that coordinate groups and transactional ids, found by FindCoordinator and remembered.

=============================================  =======================================================================
error code of the response                     effect
=============================================  =======================================================================
COORDINATOR_NOT_AVAILABLE,                     the request is repeated after the back-off: the internal topic is being
COORDINATOR_LOAD_IN_PROGRESS                   created or loaded
any other                                      ApiError, such as GROUP_AUTHORIZATION_FAILED
=============================================  =======================================================================

A caller that gets NOT_COORDINATOR from the broker calls ``forget``, and asks again. Thread rule: the event loop only.
Source: Kafka's ``AbstractCoordinator``, ``CoordinatorStrategy``; KIP-699.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from tidelog.client.model.address import Address
from tidelog.protocol.errors import ApiError, ErrorCode, code_of, error_text

_LATER: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})


class CoordinatorType(enum.IntEnum):
    """The kinds of keys. The numbers are Kafka's."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class Coordinator(NamedTuple):
    node_id: int
    address: Address


class CoordinatorNotAvailableError(ApiError):
    """A key without a coordinator at the moment, which may change."""

    def __init__(self, code: ErrorCode, key: str) -> None:
        super().__init__(code, f"{key} has no coordinator now: {code.name}")


class Coordinators:
    def __init__(self, ask: Callable[[dict[str, Any]], Awaitable[Any]]) -> None:
        """Create an empty table. ``ask`` sends a FindCoordinator request with the values to any broker."""
        self._ask = ask
        self._known: dict[tuple[CoordinatorType, str], Coordinator] = {}

    async def find(self, kind: CoordinatorType, key: str) -> Coordinator:
        """Return the coordinator of a key. Raise CoordinatorNotAvailableError if there is none now, or ApiError."""
        known = self._known.get((kind, key))
        if known is not None:
            return known
        response = await self._ask({"key": key, "key_type": int(kind), "coordinator_keys": [key]})
        found = response.coordinators[0] if response.coordinators else response  # several keys since version 4
        if found.error_code in _LATER:
            raise CoordinatorNotAvailableError(ErrorCode(found.error_code), key)
        if found.error_code != ErrorCode.NONE:
            text = found.error_message or error_text(found.error_code)
            raise ApiError(code_of(found.error_code), f"the coordinator of {key} cannot be found: {text}")
        coordinator = Coordinator(found.node_id, Address(found.host, found.port))
        self._known[kind, key] = coordinator
        return coordinator

    def forget(self, kind: CoordinatorType, key: str) -> None:
        """Forget a coordinator that has moved or cannot be reached."""
        self._known.pop((kind, key), None)
