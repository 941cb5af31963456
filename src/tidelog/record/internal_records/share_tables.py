"""The tables of ``__share_group_state``: the share coordinator's snapshots and updates (KIP-932).

They are facts of Kafka's message definitions (module share-coordinator). The schema module explains the notation.
"""

from __future__ import annotations

from tidelog.record.internal_records.frames import pair_up
from tidelog.record.internal_records.schema import parse_messages

MESSAGES = parse_messages(
    """
ShareSnapshotKey 0 versions 0-0 flexible none
    groupId string
    topicId uuid
    partition int32
ShareSnapshotValue 0 versions 0-0 flexible 0+
    snapshotEpoch int32
    stateEpoch int32
    leaderEpoch int32
    startOffset int64
    deliveryCompleteCount int32 tag 0 = -1
    createTimestamp int64
    writeTimestamp int64
    stateBatches []StateBatch
        firstOffset int64
        lastOffset int64
        deliveryState int8
        deliveryCount int16
ShareUpdateKey 1 versions 0-0 flexible none
    groupId string
    topicId uuid
    partition int32
ShareUpdateValue 1 versions 0-0 flexible 0+
    snapshotEpoch int32
    leaderEpoch int32
    startOffset int64
    deliveryCompleteCount int32 tag 0 = -1
    stateBatches []StateBatch
        firstOffset int64
        lastOffset int64
        deliveryState int8
        deliveryCount int16
"""
)

SHARE_TYPES = pair_up(MESSAGES)
