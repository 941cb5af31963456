"""The range assignor: each subscriber of a topic gets one range of its partitions. Pure.

Static members come first, sorted by instance id, then the others, sorted by member id. A static member that comes back
gets the same partitions again. Topics with equal partition counts are assigned alike, so a member can join their data.
Of *p* partitions and *m* members each gets ``p // m``, and the first ``p % m`` get one more. Source: Kafka's
``RangeAssignor`` (group coordinator).
"""

from __future__ import annotations

import uuid

from tidelog.server.groups.consumer.assignors.assignment_input import AssignmentInput
from tidelog.server.groups.consumer.consumer_member import Partitions


def assign_ranges(given: AssignmentInput) -> dict[str, Partitions]:
    """Assign by the module's rules. Previous assignments do not matter."""
    assigned: dict[str, dict[uuid.UUID, frozenset[int]]] = {member_id: {} for member_id in given.members}
    ordered = sorted(given.members, key=lambda member_id: _rank(given, member_id))
    for topic_id, partitions in given.partitions.items():
        subscribers = [member_id for member_id in ordered if topic_id in given.members[member_id].topics]
        start = 0
        for index, member_id in enumerate(subscribers):
            size = partitions // len(subscribers) + (index < partitions % len(subscribers))
            if size:
                assigned[member_id][topic_id] = frozenset(range(start, start + size))
            start += size
    return dict(assigned)


def _rank(given: AssignmentInput, member_id: str) -> tuple[bool, str]:
    instance_id = given.members[member_id].instance_id
    return (instance_id is None, member_id if instance_id is None else instance_id)
