"""The committed offsets of groups by the APIs of administrators, for a source that forbids reading its own records.

ListGroups returns the groups that a broker coordinates, so the same broker has their offsets. A group or topic that
this client may not describe is left out by the source. Offsets of open transactions are left out, too. Thread rule:
the event loop only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from tidelog.client.cluster.cluster_client import ClusterClient
from tidelog.client.model.errors import ClientError
from tidelog.model import TopicPartition
from tidelog.protocol.api_key import ApiKey

_SEVERAL_GROUPS: Final = 8
"""The first version of OffsetFetch with several groups."""
_LAST_WITH_NAMES: Final = 9
"""The last version of OffsetFetch with the names of topics."""
_GROUPS_A_REQUEST: Final = 100


class GroupOffset(NamedTuple):
    """A committed offset. ``leader_epoch`` is -1 if the commit had none."""

    group_id: str
    partition: TopicPartition
    offset: int
    leader_epoch: int
    metadata: str


async def read_group_offsets(client: ClusterClient) -> list[GroupOffset] | None:
    """Return the committed offsets of all groups, or None if a coordinator does not respond now.

    Raise ClientError that is not retriable.
    """
    found: list[GroupOffset] = []
    try:
        for node_id in sorted(client.metadata.nodes):
            listed = await client.send(node_id, ApiKey.LIST_GROUPS, {"states_filter": (), "types_filter": ()})
            if listed.error_code:
                return None
            ids = sorted(group.group_id for group in listed.groups)
            for start in range(0, len(ids), _GROUPS_A_REQUEST):
                found += await _offsets_of(client, node_id, ids[start : start + _GROUPS_A_REQUEST])
    except ClientError as error:
        if not error.is_retriable:
            raise
        return None
    return found


async def _offsets_of(client: ClusterClient, node_id: int, ids: Sequence[str]) -> list[GroupOffset]:
    groups = [{"group_id": one, "member_id": None, "member_epoch": -1, "topics": None} for one in ids]
    response = await client.send(
        node_id,
        ApiKey.OFFSET_FETCH,
        {"groups": groups, "require_stable": False},
        at_least=_SEVERAL_GROUPS,
        at_most=_LAST_WITH_NAMES,
    )
    return [offset for group in response.groups if not group.error_code for offset in _of_group(group)]


def _of_group(group: Any) -> Iterator[GroupOffset]:
    for topic in group.topics:
        for one in topic.partitions:
            if not one.error_code and one.committed_offset >= 0:
                yield GroupOffset(
                    group.group_id,
                    TopicPartition(topic.name, one.partition_index),
                    one.committed_offset,
                    one.committed_leader_epoch,
                    one.metadata or "",
                )
