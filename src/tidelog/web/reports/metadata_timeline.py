"""All records of a metadata log as columns, for filters and pages over them.

A record takes about 50 bytes and its sentence. The columns are numpy arrays, so a filter over a million records takes
milliseconds, and a page makes rows only for the records that it shows. ``metadata_timeline_reader`` reads the log.

Thread rule: a timeline is immutable; any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tidelog.server.metadata.metadata_record import NEWER_RECORD
from tidelog.storage.manager.metadata.cluster_metadata_log import SnapshotId

UNREADABLE: Final = "unreadable"
"""The type of a record whose bytes do not decode."""
LEADER_CHANGE: Final = "LeaderChange"
QUORUM: Final = "quorum"
KINDS: Final[Mapping[str, frozenset[str]]] = {
    "topics": frozenset({"TopicRecord", "RemoveTopicRecord"}),
    "partitions": frozenset({"PartitionRecord", "PartitionChangeRecord", "ClearElrRecord"}),
    "configs": frozenset({"ConfigRecord", "FeatureLevelRecord"}),
    "brokers": frozenset(
        {
            "RegisterBrokerRecord",
            "UnregisterBrokerRecord",
            "BrokerRegistrationChangeRecord",
            "FenceBrokerRecord",
            "UnfenceBrokerRecord",
            "ProducerIdsRecord",
        }
    ),
    "security": frozenset(
        {
            "UserScramCredentialRecord",
            "RemoveUserScramCredentialRecord",
            "AccessControlEntryRecord",
            "RemoveAccessControlEntryRecord",
            "DelegationTokenRecord",
            "RemoveDelegationTokenRecord",
        }
    ),
    "quotas": frozenset({"ClientQuotaRecord"}),
    QUORUM: frozenset(
        {LEADER_CHANGE, "KRaftVersion", "KRaftVoters", "RegisterControllerRecord", "UnregisterControllerRecord"}
    ),
    "other": frozenset(
        {
            "BeginTransactionRecord",
            "EndTransactionRecord",
            "AbortTransactionRecord",
            "ZkMigrationStateRecord",
            NEWER_RECORD,
            UNREADABLE,
        }
    ),
}
"""The kinds of changes, with the types of their records. ``NoOpRecord`` changes nothing, so it has no kind."""
NO_OP: Final = "NoOpRecord"

NOTHING: Final = -1
"""The number of a missing topic, partition or list of brokers."""
IN_EFFECT, ABORTED, NOT_ENDED = 0, 1, 2
"""The effects of a record: that of an aborted or unfinished transaction has none."""

Mask = npt.NDArray[np.bool_]


class QuorumEpoch(NamedTuple):
    """An epoch of the quorum from its first record on. ``leader`` is None if that record is not in the log."""

    epoch: int
    first_offset: int
    time_ms: int
    leader: int | None
    voters: tuple[int, ...] = ()


class SnapshotFile(NamedTuple):
    id: SnapshotId
    bytes: int


class TimelineDamage(NamedTuple):
    """The place at which reading stopped before the end of the last segment."""

    path: Path
    position: int
    rest: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineFilter:
    """The wanted records. None and empty texts want all of them."""

    kind: str = ""
    type: str = ""
    topic: str = ""
    partition: int | None = None
    broker: int | None = None
    start: int | None = None
    end: int | None = None
    with_no_ops: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MetadataTimeline:
    directory: Path
    offset: npt.NDArray[np.int64]
    time_ms: npt.NDArray[np.int64]
    epoch: npt.NDArray[np.int32]
    effect: npt.NDArray[np.int8]
    type_number: npt.NDArray[np.int16]
    topic_number: npt.NDArray[np.int32]
    partition: npt.NDArray[np.int32]
    brokers_number: npt.NDArray[np.int32]
    texts: bytes
    text_end: npt.NDArray[np.int64]
    types: Sequence[str]
    topics: Sequence[str]
    brokers: Sequence[tuple[int, ...]]
    epochs: Sequence[QuorumEpoch]
    snapshots: Sequence[SnapshotFile]
    log_bytes: int
    damage: TimelineDamage | None
    notes: Sequence[str]

    def __len__(self) -> int:
        return len(self.offset)

    def select(self, wanted: TimelineFilter) -> npt.NDArray[np.int64]:
        """Return the row numbers of the wanted records, ascending."""
        keep: Mask = np.ones(len(self), np.bool_)
        if not wanted.with_no_ops and wanted.type != NO_OP:
            keep &= self._is_type(lambda name: name != NO_OP)
        if wanted.kind:
            keep &= self._is_type(lambda name: name in KINDS[wanted.kind])
        if wanted.type:
            keep &= self._is_type(lambda name: name == wanted.type)
        if wanted.topic:
            keep &= self.topic_number == _index(self.topics, wanted.topic)
        if wanted.partition is not None:
            keep &= (self.partition == wanted.partition) | self._is_type(lambda name: name in KINDS["topics"])
        if wanted.broker is not None:
            numbers = [number for number, ids in enumerate(self.brokers) if wanted.broker in ids]
            keep &= np.isin(self.brokers_number, numbers)
        if wanted.start is not None:
            keep &= self.offset >= wanted.start
        if wanted.end is not None:
            keep &= self.offset < wanted.end
        return np.flatnonzero(keep)

    def _is_type(self, wanted: Callable[[str], bool]) -> Mask:
        return np.isin(self.type_number, [number for number, name in enumerate(self.types) if wanted(name)])

    def kind_numbers(self) -> npt.NDArray[np.int8]:
        """Return the number of each record's kind in ``KINDS``, -1 without one."""
        names = list(KINDS)
        of_type = [
            next((number for number, kind in enumerate(names) if name in KINDS[kind]), NOTHING) for name in self.types
        ]
        return np.array([*of_type, NOTHING], np.int8)[self.type_number]

    def sentence(self, row: int) -> str:
        start = int(self.text_end[row - 1]) if row else 0
        text = self.texts[start : int(self.text_end[row])].decode(errors="surrogatepass")
        prefix = {ABORTED: "without effect: ", NOT_ENDED: "not yet in effect: "}.get(int(self.effect[row]), "")
        return prefix + text

    def row(self, row: int) -> dict[str, object]:
        """Return a record's values by name."""
        topic, partition = int(self.topic_number[row]), int(self.partition[row])
        brokers, epoch = int(self.brokers_number[row]), int(self.epoch[row])
        leader = next((one.leader for one in reversed(self.epochs) if one.epoch == epoch), None)
        return {
            "offset": int(self.offset[row]),
            "time": int(self.time_ms[row]),
            "epoch": epoch,
            "controller": leader,
            "type": self.types[int(self.type_number[row])],
            "topic": None if topic == NOTHING else self.topics[topic],
            "partition": None if partition == NOTHING else partition,
            "brokers": [] if brokers == NOTHING else list(self.brokers[brokers]),
            "change": self.sentence(row),
        }


def _index(values: Sequence[str], wanted: str) -> int:
    """Return a number that no record has if the value is unknown."""
    return values.index(wanted) if wanted in values else -2
