"""The tables of ``__remote_log_metadata``: the places of segments in tiered storage (KIP-405).

They are facts of Kafka's message definitions (module storage). The schema module explains the notation.
"""

from __future__ import annotations

from tidelog.record.internal_records.frames import by_api_key
from tidelog.record.internal_records.schema import parse_messages

MESSAGES = parse_messages(
    """
RemoteLogSegmentMetadataRecord 0 versions 0-0 flexible 0+
    remoteLogSegmentId RemoteLogSegmentIdEntry
        topicIdPartition TopicIdPartitionEntry
            name string
            id uuid
            partition int32
        id uuid
    startOffset int64
    endOffset int64
    brokerId int32
    maxTimestampMs int64
    eventTimestampMs int64
    segmentLeaderEpochs []SegmentLeaderEpochEntry
        leaderEpoch int32
        offset int64
    segmentSizeInBytes int32
    customMetadata bytes? = null
    remoteLogSegmentState int8
    txnIndexEmpty boolean tag 0
RemoteLogSegmentMetadataSnapshotRecord 3 versions 0-0 flexible 0+
    segmentId uuid
    startOffset int64
    endOffset int64
    brokerId int32
    maxTimestampMs int64
    eventTimestampMs int64
    segmentLeaderEpochs []SegmentLeaderEpochEntry
        leaderEpoch int32
        offset int64
    segmentSizeInBytes int32
    customMetadata bytes? = null
    remoteLogSegmentState int8
    txnIndexEmpty boolean tag 0
RemoteLogSegmentMetadataUpdateRecord 1 versions 0-0 flexible 0+
    remoteLogSegmentId RemoteLogSegmentIdEntry
        topicIdPartition TopicIdPartitionEntry
            name string
            id uuid
            partition int32
        id uuid
    brokerId int32
    eventTimestampMs int64
    customMetadata bytes? = null
    remoteLogSegmentState int8
RemotePartitionDeleteMetadataRecord 2 versions 0-0 flexible 0+
    topicIdPartition TopicIdPartitionEntry
        name string
        id uuid
        partition int32
    brokerId int32
    eventTimestampMs int64
    remotePartitionDeleteState int8
"""
)

REMOTE_LOG_TYPES = by_api_key(MESSAGES)
