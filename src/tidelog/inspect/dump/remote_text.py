"""The text of remote log metadata (KIP-405) that ``kafka-dump-log`` prints.

The tool prints ``toString`` of Kafka's classes and not JSON. The functions are pure. Thread rule: any thread. Source:
the output of Kafka 4.1 for ``RemoteLogSegmentMetadata`` and related classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.model import CorruptRecordError

_SEGMENT_STATES = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
_PARTITION_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")


def remote_metadata_text(name: str, fields: Mapping[str, Any]) -> str:
    """Return one line for the message ``name`` of the remote tables. Raise CorruptRecordError for a state unknown to
    Kafka."""
    if name == "RemotePartitionDeleteMetadataRecord":
        state = _state(_PARTITION_STATES, fields["remotePartitionDeleteState"])
        partition = _topic_partition(fields["topicIdPartition"])
        return (
            f"RemotePartitionDeleteMetadata{{topicPartition={partition}, state={state}, "
            f"eventTimestampMs={fields['eventTimestampMs']}, brokerId={fields['brokerId']}}}"
        )
    state = _state(_SEGMENT_STATES, fields["remoteLogSegmentState"])
    custom = fields["customMetadata"]
    custom_text = "Optional.empty" if custom is None else f"Optional[CustomMetadata{{{len(custom)} bytes}}]"
    if name == "RemoteLogSegmentMetadataUpdateRecord":
        return (
            f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={_segment_id(fields)}, customMetadata={custom_text}, "
            f"state={state}, eventTimestampMs={fields['eventTimestampMs']}, brokerId={fields['brokerId']}}}"
        )
    tail = (
        f"segmentLeaderEpochs={_epochs(fields)}, segmentSizeInBytes={fields['segmentSizeInBytes']}, "
        f"customMetadata={custom_text}, state={state}, "
        f"txnIdxEmpty={'true' if fields.get('txnIndexEmpty') else 'false'}}}"
    )
    offsets = f"startOffset={fields['startOffset']}, endOffset={fields['endOffset']}"
    if name == "RemoteLogSegmentMetadataSnapshotRecord":
        return (
            f"RemoteLogSegmentMetadataSnapshot{{segmentId={fields['segmentId']}, {offsets}, "
            f"maxTimestampMs={fields['maxTimestampMs']}, {tail}"
        )
    return (
        f"RemoteLogSegmentMetadata{{remoteLogSegmentId={_segment_id(fields)}, {offsets}, "
        f"brokerId={fields['brokerId']}, maxTimestampMs={fields['maxTimestampMs']}, "
        f"eventTimestampMs={fields['eventTimestampMs']}, {tail}"
    )


def _segment_id(fields: Mapping[str, Any]) -> str:
    segment = fields["remoteLogSegmentId"]
    partition = _topic_partition(segment["topicIdPartition"])
    return f"RemoteLogSegmentId{{topicIdPartition={partition}, id={segment['id']}}}"


def _topic_partition(fields: Mapping[str, Any]) -> str:
    return f"{fields['id']}:{fields['name']}-{fields['partition']}"


def _epochs(fields: Mapping[str, Any]) -> str:
    """Return the text of a sorted map. The last entry of an epoch counts."""
    epochs = {entry["leaderEpoch"]: entry["offset"] for entry in fields["segmentLeaderEpochs"]}
    return "{" + ", ".join(f"{epoch}={epochs[epoch]}" for epoch in sorted(epochs)) + "}"


def _state(names: tuple[str, ...], number: int) -> str:
    if not 0 <= number < len(names):
        raise CorruptRecordError(f"the state {number} is unknown")
    return names[number]
