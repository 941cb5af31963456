"""The client's side of an incremental fetch session with one broker (KIP-227). Without I/O.

A session lets a Fetch request name only the partitions that changed. A driver uses it in turns::

    request = session.next_request(wanted)         # the fields of a Fetch request
    if session.receive(FetchResponseHead(…)):      # each response, before its partitions are used
        …                                          # session.partition(…), session.wanted(…)
    session.fail()                                 # or: the request has no response

=======================================  ==============================  ===========================================
partition                                in the next request             as
=======================================  ==============================  ===========================================
wanted for the first time                yes                             ``partitions``
wanted with other fields                 yes                             ``partitions``
wanted with another topic id             yes, with all others            ``partitions`` of a full request, because the
                                                                         name alone cannot tell both topics apart
wanted unchanged                         no; the broker remembers it
wanted no longer                         yes                             ``forgotten``
=======================================  ==============================  ===========================================

A full request, with epoch 0 or -1, has every wanted partition.

====================================================  ======================  =======================================
response                                              usable                  next request
====================================================  ======================  =======================================
to a full request, with a session id                  yes                     incremental, with epoch 1
to a full request, without a session id               yes                     full: the broker has no room for a session
to a full request, throttled and without partitions   no                      full
to a full request, without a wanted partition         no                      full
or with another one
incremental, with the session id                      yes                     incremental, with the next epoch
incremental, without a session id                     yes                     full: the broker has closed the session
incremental, with a partition that is not in it       no                      full, and closes the session
FETCH_SESSION_ID_NOT_FOUND                            no                      full, with a new session
any other error, or none at all                       no                      full, and closes the session
====================================================  ======================  =======================================

Topic ids (Fetch version 13 and later) are used if every partition has one (``uses_topic_ids``).
One request is in flight at a time. Thread rule: one thread. Source: Kafka's ``FetchSessionHandler`` and
``FetchMetadata`` (KIP-227, KIP-516); Kafka keeps the session if a topic id changes.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tidelog.model import TopicPartition
from tidelog.protocol.errors import ErrorCode
from tidelog.replication.follower_events import FetchPosition

INVALID_SESSION_ID = 0
INITIAL_EPOCH = 0
"""The epoch of a full request that asks for a session."""
FINAL_EPOCH = -1
"""The epoch of a full request without a session. With a session id it closes that session."""
MAX_EPOCH = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedPartition:
    """The fields of a partition in a Fetch request."""

    position: FetchPosition
    max_bytes: int
    topic_id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True)
class SessionPartition:
    """The name of a partition in a session. Topics of the same name with different ids differ."""

    topic_partition: TopicPartition
    topic_id: uuid.UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """The fields of the next Fetch request that belong to the session."""

    session_id: int
    session_epoch: int
    partitions: Mapping[TopicPartition, WantedPartition]
    forgotten: tuple[SessionPartition, ...]
    """Partitions that left the session. ``partitions`` has none of these names."""
    uses_topic_ids: bool
    """True if version 13 or later can be used."""

    @property
    def is_full(self) -> bool:
        return self.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponseHead:
    """The fields of a Fetch response that belong to the session."""

    error_code: int = ErrorCode.NONE
    session_id: int = INVALID_SESSION_ID
    throttle_time_ms: int = 0
    partitions: Collection[TopicPartition | tuple[uuid.UUID, int]] = ()
    """The partitions by topic id from version 13 on, by name before."""


class FetchSessionHandler:
    def __init__(self) -> None:
        """Begin without a session."""
        self.session_id = INVALID_SESSION_ID
        self.session_epoch = INITIAL_EPOCH
        self.problem: str | None = None
        """The reason why the last response could not be used."""
        self._partitions: dict[TopicPartition, WantedPartition] = {}
        self._by_topic_id: dict[tuple[uuid.UUID, int], TopicPartition] = {}
        """The partitions by topic id, as the last request named them."""

    # --- requests ---

    def next_request(self, wanted: Mapping[TopicPartition, WantedPartition]) -> SessionRequest:
        """Return the next request for these partitions. The broker reads them in this order."""
        forgotten: list[SessionPartition] = []
        if any(self._replaces(name, partition) for name, partition in wanted.items()):
            self._forget(keeps_id=True)
        if self._is_full:
            changed = self._partitions = dict(wanted)
        else:
            changed, forgotten = self._change(wanted)
        self._by_topic_id = {
            (partition.topic_id, name.partition): name
            for name, partition in self._partitions.items()
            if partition.topic_id is not None
        }
        return SessionRequest(
            session_id=self.session_id,
            session_epoch=self.session_epoch,
            partitions=dict(changed),
            forgotten=tuple(forgotten),
            uses_topic_ids=len(self._by_topic_id) == len(self._partitions)
            and all(partition.topic_id is not None for partition in forgotten),
        )

    def close_request(self) -> SessionRequest | None:
        """Return the request that closes the session at the broker, or None without one."""
        if self.session_id == INVALID_SESSION_ID:
            return None
        self.session_epoch = FINAL_EPOCH
        return self.next_request({})

    # --- responses ---

    def receive(self, response: FetchResponseHead) -> bool:
        """Continue with a response. Return True if its partitions can be used; else ``problem`` says why not."""
        self.problem = self._problem_of(response)
        if self.problem is not None:
            is_unknown = response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            is_opening = self._is_full and response.error_code == ErrorCode.NONE
            self._forget(keeps_id=not is_unknown and not is_opening)
            return False
        if response.session_id == INVALID_SESSION_ID:
            self._forget(keeps_id=False)
        elif self._is_full:
            self.session_id, self.session_epoch = response.session_id, 1
        else:
            self.session_epoch = 1 if self.session_epoch == MAX_EPOCH else self.session_epoch + 1
        return True

    def fail(self) -> None:
        """Continue after a request without a response: the broker may or may not have processed it."""
        self._forget(keeps_id=True)

    def partition(self, topic_id: uuid.UUID, number: int) -> TopicPartition | None:
        """Return the name of a partition in a response of version 13 or later, or None if it was not fetched."""
        return self._by_topic_id.get((topic_id, number))

    def wanted(self, partition: TopicPartition) -> WantedPartition | None:
        """Return the fields with which the broker reads a partition, or None if it is not in the session."""
        return self._partitions.get(partition)

    # --- inside ---

    @property
    def _is_full(self) -> bool:
        return self.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH)

    def _forget(self, *, keeps_id: bool) -> None:
        """Ask for a new session with the next request. A kept id closes the old session with that request."""
        self.session_epoch = INITIAL_EPOCH
        if not keeps_id:
            self.session_id = INVALID_SESSION_ID

    def _replaces(self, name: TopicPartition, wanted: WantedPartition) -> bool:
        """Return True if the session has another topic of that name."""
        before = self._partitions.get(name)
        return before is not None and before.topic_id not in (None, wanted.topic_id)

    def _change(
        self, wanted: Mapping[TopicPartition, WantedPartition]
    ) -> tuple[dict[TopicPartition, WantedPartition], list[SessionPartition]]:
        """Update the session's partitions. Return the changed and the forgotten ones."""
        changed: dict[TopicPartition, WantedPartition] = {}
        forgotten: list[SessionPartition] = []
        for name, before in list(self._partitions.items()):
            now = wanted.get(name)
            if now is None:
                del self._partitions[name]
                forgotten.append(SessionPartition(name, before.topic_id))
            elif now != before:
                self._partitions[name] = changed[name] = now
        for name, now in wanted.items():
            if name not in self._partitions:
                self._partitions[name] = changed[name] = now
        return changed, forgotten

    def _problem_of(self, response: FetchResponseHead) -> str | None:
        if response.error_code != ErrorCode.NONE:
            return f"the broker returned error {response.error_code} for fetch session {self.session_id}"
        found, unknown = set(), []
        for partition in response.partitions:
            name = partition if isinstance(partition, TopicPartition) else self._by_topic_id.get(partition)
            if name is None or name not in self._partitions:
                unknown.append(partition)
            else:
                found.add(name)
        if unknown:
            return f"the response has partitions that were not requested: {', '.join(map(str, unknown))}"
        missing = [str(name) for name in self._partitions if name not in found] if self._is_full else []
        if missing and not found and response.throttle_time_ms > 0:
            return f"the broker throttles this client for {response.throttle_time_ms} ms"
        return f"the full response lacks partitions: {', '.join(missing)}" if missing else None
