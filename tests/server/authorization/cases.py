"""Requests for every API, each from clients with and without the necessary permission.

The broker receives them in this order: deletions come last.
"""

from __future__ import annotations

from server.authorization.case import Case
from server.authorization.cluster_cases import access, cluster, quotas_and_users, settings
from server.authorization.data_cases import reading, writing
from server.authorization.group_cases import groups, offsets
from server.authorization.metadata_cases import deletions, metadata, topics
from server.authorization.transaction_cases import added_partitions, offsets_and_markers, producer_ids, transactions


def cases() -> list[Case]:
    return [
        *reading(),
        *metadata(),
        *groups(),
        *offsets(),
        *transactions(),
        *producer_ids(),
        *added_partitions(),
        *offsets_and_markers(),
        *settings(),
        *quotas_and_users(),
        *cluster(),
        *access(),
        *topics(),
        *writing(),
        *deletions(),
    ]
