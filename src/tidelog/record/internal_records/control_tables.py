"""The tables of control records, of the consumer protocol and of ``quorum-state``.

The control records are leader change, snapshot header and footer, KRaft version and voters, and end of transaction.
The consumer protocol lies inside group metadata. The tables are facts of Kafka's message definitions (modules clients
and raft). The schema module explains the notation.
"""

from __future__ import annotations

from tidelog.record.internal_records.schema import parse_messages

MESSAGES = parse_messages(
    """
ConsumerProtocolAssignment -1 versions 0-3 flexible none
    assignedPartitions []TopicPartition
        topic string
        partitions []int32
    userData bytes? = null
ConsumerProtocolSubscription -1 versions 0-3 flexible none
    topics []string
    userData bytes? = null
    ownedPartitions []TopicPartition 1+
        topic string 1+
        partitions []int32 1+
    generationId int32 2+ = -1
    rackId string? 3+ = null
EndTxnMarker -1 versions 0-0 flexible none
    coordinatorEpoch int32
KRaftVersionRecord -1 versions 0-0 flexible 0+
    version int16
    kRaftVersion int16
LeaderChangeMessage -1 versions 0-1 flexible 0+
    version int16
    leaderId int32
    voters []Voter
        voterId int32
        voterDirectoryId uuid 1+
    grantingVoters []Voter
        voterId int32
        voterDirectoryId uuid 1+
SnapshotFooterRecord -1 versions 0-0 flexible 0+
    version int16
SnapshotHeaderRecord -1 versions 0-0 flexible 0+
    version int16
    lastContainedLogTimestamp int64
VotersRecord -1 versions 0-0 flexible 0+
    version int16
    voters []Voter
        voterId int32
        voterDirectoryId uuid
        endpoints []Endpoint
            name string
            host string
            port uint16
        kRaftVersionFeature KRaftVersionFeature
            minSupportedVersion int16
            maxSupportedVersion int16
QuorumStateData -1 versions 0-1 flexible 0+
    clusterId string 0
    leaderId int32 = -1
    leaderEpoch int32 = -1
    votedId int32 = -1
    votedDirectoryId uuid 1+
    appliedOffset int64 0
    currentVoters []Voter? 0
        voterId int32 0
"""
)

LEADER_CHANGE = MESSAGES["LeaderChangeMessage"]
SNAPSHOT_HEADER = MESSAGES["SnapshotHeaderRecord"]
SNAPSHOT_FOOTER = MESSAGES["SnapshotFooterRecord"]
KRAFT_VERSION = MESSAGES["KRaftVersionRecord"]
KRAFT_VOTERS = MESSAGES["VotersRecord"]
END_TXN_MARKER = MESSAGES["EndTxnMarker"]
CONSUMER_SUBSCRIPTION = MESSAGES["ConsumerProtocolSubscription"]
CONSUMER_ASSIGNMENT = MESSAGES["ConsumerProtocolAssignment"]
QUORUM_STATE = MESSAGES["QuorumStateData"]
