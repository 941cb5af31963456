"""Requests of clients that may do something, and of the same clients when they may not: of every API there is.

In the order in which a broker is asked: what is deleted goes last.
"""

from __future__ import annotations

from server.authorization.case import Case
from server.authorization.cluster_cases import access, cluster, settings
from server.authorization.data_cases import reading, writing
from server.authorization.group_cases import groups, offsets
from server.authorization.metadata_cases import deletions, metadata, topics
from server.authorization.transaction_cases import transactions


def cases() -> list[Case]:
    return [
        *reading(),
        *metadata(),
        *groups(),
        *offsets(),
        *transactions(),
        *settings(),
        *cluster(),
        *access(),
        *topics(),
        *writing(),
        *deletions(),
    ]
