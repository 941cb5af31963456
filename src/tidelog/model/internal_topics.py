"""Kafka's internal topics: their names, and the set for each purpose. The names' source is Kafka's ``Topic``.

===========================  =========================================  =============================================
the set                      its topics                                 its purpose
===========================  =========================================  =============================================
INTERNAL_TOPICS              those of the group, transaction and share  Kafka's ``Topic.isInternal``: clients may not
                             coordinators                               append to them
COMPACTED_TOPICS             those of the group and transaction         Kafka creates them with the cleanup policy
                             coordinators                               ``compact``
HIDDEN_FROM_PATTERNS         INTERNAL_TOPICS, the cluster metadata      a subscription by pattern omits them
TOPICS_WITHOUT_USER_RECORDS  all five                                   an export of a complete directory omits them
===========================  =========================================  =============================================

``server.topics.internal_topics`` has the settings that a broker creates the first three with.
"""

from __future__ import annotations

from typing import Final

GROUP_METADATA_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
SHARE_GROUP_STATE_TOPIC: Final = "__share_group_state"
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
REMOTE_LOG_METADATA_TOPIC: Final = "__remote_log_metadata"

INTERNAL_TOPICS: Final = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})
COMPACTED_TOPICS: Final = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC})
HIDDEN_FROM_PATTERNS: Final = INTERNAL_TOPICS | {CLUSTER_METADATA_TOPIC}
TOPICS_WITHOUT_USER_RECORDS: Final = HIDDEN_FROM_PATTERNS | {REMOTE_LOG_METADATA_TOPIC}
