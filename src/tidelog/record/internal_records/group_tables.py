"""The tables of ``__consumer_offsets``: all record types of the group coordinator.

They are facts of Kafka 4.4's message definitions, keys and values (module group-coordinator, record types 0 to 23; 9
and 18 were never released). The schema module explains the notation. Brokers before 0.9 wrote ``LegacyOffsetCommit``.
"""

from __future__ import annotations

from tidelog.record.internal_records.frames import pair_up
from tidelog.record.internal_records.schema import parse_messages

MESSAGES = parse_messages(
    """
LegacyOffsetCommitKey 0 versions 0-0 flexible none
    group string
    topic string
    partition int32
LegacyOffsetCommitValue 0 versions 0-0 flexible none
    offset int64
    metadata string
    commitTimestamp int64
OffsetCommitKey 1 versions 0-0 flexible none
    group string
    topic string
    partition int32
OffsetCommitValue 1 versions 0-4 flexible 4+
    offset int64
    leaderEpoch int32 3+ = -1
    metadata string
    commitTimestamp int64
    expireTimestamp int64 1 = -1
    topicId uuid 4+ tag 0
GroupMetadataKey 2 versions 0-0 flexible none
    group string
GroupMetadataValue 2 versions 0-4 flexible 4+
    protocolType string
    generation int32
    protocol string?
    leader string?
    currentStateTimestamp int64 2+ = -1
    members []MemberMetadata
        memberId string
        groupInstanceId string? 3+ = null
        clientId string
        clientHost string
        rebalanceTimeout int32 1+ = -1
        sessionTimeout int32
        subscription bytes
        assignment bytes
ConsumerGroupMetadataKey 3 versions 0-0 flexible none
    groupId string
ConsumerGroupMetadataValue 3 versions 0-0 flexible 0+
    epoch int32
    metadataHash int64 tag 0
ConsumerGroupPartitionMetadataKey 4 versions 0-0 flexible none
    groupId string
ConsumerGroupPartitionMetadataValue 4 versions 0-0 flexible 0+
    topics []TopicMetadata
        topicId uuid
        topicName string
        numPartitions int32
        partitionMetadata []PartitionMetadata
            partition int32
            racks []string
ConsumerGroupMemberMetadataKey 5 versions 0-0 flexible none
    groupId string
    memberId string
ConsumerGroupMemberMetadataValue 5 versions 0-0 flexible 0+
    instanceId string?
    rackId string?
    clientId string
    clientHost string
    subscribedTopicNames []string
    subscribedTopicRegex string?
    rebalanceTimeoutMs int32 = -1
    serverAssignor string?
    classicMemberMetadata ClassicMemberMetadata? tag 0
        sessionTimeoutMs int32
        supportedProtocols []ClassicProtocol
            name string
            metadata bytes
ConsumerGroupTargetAssignmentMetadataKey 6 versions 0-0 flexible none
    groupId string
ConsumerGroupTargetAssignmentMetadataValue 6 versions 0-0 flexible 0+
    assignmentEpoch int32
    assignmentTimestamp int64 tag 0
ConsumerGroupTargetAssignmentMemberKey 7 versions 0-0 flexible none
    groupId string
    memberId string
ConsumerGroupTargetAssignmentMemberValue 7 versions 0-0 flexible 0+
    topicPartitions []TopicPartition
        topicId uuid
        partitions []int32
ConsumerGroupCurrentMemberAssignmentKey 8 versions 0-0 flexible none
    groupId string
    memberId string
ConsumerGroupCurrentMemberAssignmentValue 8 versions 0-0 flexible 0+
    memberEpoch int32
    previousMemberEpoch int32
    state int8
    assignedPartitions []TopicPartitions
        topicId uuid
        partitions []int32
        assignmentEpochs []int32? tag 0
    partitionsPendingRevocation []TopicPartitions
        topicId uuid
        partitions []int32
        assignmentEpochs []int32? tag 0
ShareGroupMemberMetadataKey 10 versions 0-0 flexible none
    groupId string
    memberId string
ShareGroupMemberMetadataValue 10 versions 0-0 flexible 0+
    rackId string?
    clientId string
    clientHost string
    subscribedTopicNames []string
ShareGroupMetadataKey 11 versions 0-0 flexible none
    groupId string
ShareGroupMetadataValue 11 versions 0-0 flexible 0+
    epoch int32
    metadataHash int64
ShareGroupTargetAssignmentMetadataKey 12 versions 0-0 flexible none
    groupId string
ShareGroupTargetAssignmentMetadataValue 12 versions 0-0 flexible 0+
    assignmentEpoch int32
    assignmentTimestamp int64 tag 0
ShareGroupTargetAssignmentMemberKey 13 versions 0-0 flexible none
    groupId string
    memberId string
ShareGroupTargetAssignmentMemberValue 13 versions 0-0 flexible 0+
    topicPartitions []TopicPartition
        topicId uuid
        partitions []int32
ShareGroupCurrentMemberAssignmentKey 14 versions 0-0 flexible none
    groupId string
    memberId string
ShareGroupCurrentMemberAssignmentValue 14 versions 0-0 flexible 0+
    memberEpoch int32
    previousMemberEpoch int32
    state int8
    assignedPartitions []TopicPartitions
        topicId uuid
        partitions []int32
ShareGroupStatePartitionMetadataKey 15 versions 0-0 flexible none
    groupId string
ShareGroupStatePartitionMetadataValue 15 versions 0-0 flexible 0+
    initializingTopics []TopicPartitionsInfo
        topicId uuid
        topicName string
        partitions []int32
    initializedTopics []TopicPartitionsInfo
        topicId uuid
        topicName string
        partitions []int32
    deletingTopics []TopicInfo
        topicId uuid
        topicName string
ConsumerGroupRegularExpressionKey 16 versions 0-0 flexible none
    groupId string
    regularExpression string
ConsumerGroupRegularExpressionValue 16 versions 0-0 flexible 0+
    topics []string
    version int64
    timestamp int64
StreamsGroupMetadataKey 17 versions 0-0 flexible none
    groupId string
StreamsGroupMetadataValue 17 versions 0-0 flexible 0+
    epoch int32
    metadataHash int64
    validatedTopologyEpoch int32 tag 0 = -1
    lastAssignmentConfigs []LastAssignmentConfig? tag 1
        key string
        value string
    storedDescriptionTopologyEpoch int32 tag 2 = -1
    failedDescriptionTopologyEpoch int32 tag 3 = -1
StreamsGroupMemberMetadataKey 19 versions 0-0 flexible none
    groupId string
    memberId string
StreamsGroupMemberMetadataValue 19 versions 0-0 flexible 0+
    instanceId string?
    rackId string?
    clientId string
    clientHost string
    rebalanceTimeoutMs int32 = -1
    topologyEpoch int32
    processId string
    userEndpoint Endpoint? = null
        host string
        port uint16
    clientTags []KeyValue
        key string
        value string
StreamsGroupTargetAssignmentMetadataKey 20 versions 0-0 flexible none
    groupId string
StreamsGroupTargetAssignmentMetadataValue 20 versions 0-0 flexible 0+
    assignmentEpoch int32
    assignmentTimestamp int64 tag 0
StreamsGroupTargetAssignmentMemberKey 21 versions 0-0 flexible none
    groupId string
    memberId string
StreamsGroupTargetAssignmentMemberValue 21 versions 0-0 flexible 0+
    activeTasks []TaskIds
        subtopologyId string
        partitions []int32
    standbyTasks []TaskIds
        subtopologyId string
        partitions []int32
    warmupTasks []TaskIds
        subtopologyId string
        partitions []int32
StreamsGroupCurrentMemberAssignmentKey 22 versions 0-0 flexible none
    groupId string
    memberId string
StreamsGroupCurrentMemberAssignmentValue 22 versions 0-0 flexible 0+
    memberEpoch int32
    previousMemberEpoch int32
    state int8
    activeTasks []TaskIds
        subtopologyId string
        partitions []int32
        assignmentEpochs []int32? tag 0
    standbyTasks []TaskIds
        subtopologyId string
        partitions []int32
        assignmentEpochs []int32? tag 0
    warmupTasks []TaskIds
        subtopologyId string
        partitions []int32
        assignmentEpochs []int32? tag 0
    activeTasksPendingRevocation []TaskIds
        subtopologyId string
        partitions []int32
        assignmentEpochs []int32? tag 0
    standbyTasksPendingRevocation []TaskIds
        subtopologyId string
        partitions []int32
        assignmentEpochs []int32? tag 0
    warmupTasksPendingRevocation []TaskIds
        subtopologyId string
        partitions []int32
        assignmentEpochs []int32? tag 0
StreamsGroupTopologyKey 23 versions 0-0 flexible none
    groupId string
StreamsGroupTopologyValue 23 versions 0-0 flexible 0+
    epoch int32
    subtopologies []Subtopology
        subtopologyId string
        sourceTopics []string
        sourceTopicRegex []string
        stateChangelogTopics []TopicInfo
            name string
            partitions int32
            replicationFactor int16
            topicConfigs []TopicConfig
                key string
                value string
        repartitionSinkTopics []string
        repartitionSourceTopics []TopicInfo
            name string
            partitions int32
            replicationFactor int16
            topicConfigs []TopicConfig
                key string
                value string
        copartitionGroups []CopartitionGroup
            sourceTopics []int16
            sourceTopicRegex []int16
            repartitionSourceTopics []int16
"""
)

GROUP_TYPES = pair_up(MESSAGES)
