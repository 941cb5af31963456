"""Control records, which a broker writes into a log between the clients' records.

The key of every record in a control batch is ``version int16 | type int16``. The type decides the value's layout. This
module has the key and the marker that ends a transaction. A version above the known one is read as the known one, as
Kafka does, since new fields follow the old ones. Pure. Thread rule: any thread.

Source: Kafka's ``ControlRecordType``, ``EndTransactionMarker``; KIP-98, KIP-595, KIP-630, KIP-853.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from tidelog.model import CorruptRecordError

if TYPE_CHECKING:
    from typing_extensions import Buffer

_KEY: Final = struct.Struct(">hh")
_MARKER_VALUE: Final = struct.Struct(">hi")
_VERSION: Final = 0


class ControlType(enum.IntEnum):
    """Kafka's numbers; UNKNOWN is a type of a later release, which readers skip."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_TYPES: Final = {int(member): member for member in ControlType}


def control_type_id(key: Buffer | None) -> int:
    """Return the type number in a control record's key. Raise CorruptRecordError for other bytes."""
    view = memoryview(b"" if key is None else key)
    if view.nbytes < _KEY.size:
        raise CorruptRecordError(f"a control record's key has at least {_KEY.size} bytes, not {view.nbytes}")
    version, type_id = _KEY.unpack_from(view)
    if version < 0:
        raise CorruptRecordError(f"a control record's key has the version {version}")
    return int(type_id)


def control_type(key: Buffer | None) -> ControlType:
    return _TYPES.get(control_type_id(key), ControlType.UNKNOWN)


def control_key(type_: ControlType) -> bytes:
    """Return the key bytes for a type. Raise ValueError for UNKNOWN."""
    if type_ is ControlType.UNKNOWN:
        raise ValueError("an unknown control record cannot be written")
    return _KEY.pack(_VERSION, type_)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionMarker:
    """The end of a producer's transaction in a partition; ``coordinator_epoch`` fences older coordinators."""

    committed: bool
    coordinator_epoch: int

    @classmethod
    def parse(cls, key: Buffer | None, value: Buffer | None) -> Self:
        """Parse a marker. Raise CorruptRecordError for another key or value."""
        type_ = control_type(key)
        if type_ not in (ControlType.COMMIT, ControlType.ABORT):
            raise CorruptRecordError(f"a transaction ends with COMMIT or ABORT, not with {type_.name}")
        view = memoryview(b"" if value is None else value)
        if view.nbytes < _MARKER_VALUE.size:
            raise CorruptRecordError(f"a transaction marker's value has {_MARKER_VALUE.size} bytes, not {view.nbytes}")
        version, coordinator_epoch = _MARKER_VALUE.unpack_from(view)
        if version < 0:
            raise CorruptRecordError(f"a transaction marker's value has the version {version}")
        return cls(committed=type_ is ControlType.COMMIT, coordinator_epoch=coordinator_epoch)

    @property
    def type(self) -> ControlType:
        return ControlType.COMMIT if self.committed else ControlType.ABORT

    def key(self) -> bytes:
        return control_key(self.type)

    def value(self) -> bytes:
        return _MARKER_VALUE.pack(_VERSION, self.coordinator_epoch)
