"""Elections that the controller begins by itself, at intervals.

===================  =======================================  =====================================================
election             partitions                               leader
===================  =======================================  =====================================================
balance of leaders   led by another replica than the first    the first replica, if it is in sync and alive
unclean elections    without a leader, of topics that allow   any live replica
                     unclean elections
===================  =======================================  =====================================================

One change has at most 1,000 elections. The result is True if there may be more. Pure. Source: Kafka's
``ReplicationControlManager`` (``maybeBalancePartitionLeaders``, ``maybeElectUncleanLeaders``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidelog.server.metadata.controller.decision import ControllerSettings, Decision, allows_unclean_election
from tidelog.server.metadata.controller.leaders import PartitionRef, election_rules
from tidelog.server.metadata.controller.partition_change import Election, TargetReplicas, change_partition
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.metadata_record import MetadataRecord

MAX_ELECTIONS: Final = 1000


def balance_leaders(image: MetadataImage, settings: ControllerSettings) -> Decision[bool]:
    """Give leaderships back to preferred replicas."""
    places = (PartitionRef(*found) for found in image.partitions())
    imbalanced = (place for place in places if not place.state.has_preferred_leader)
    return _elect(image, settings, imbalanced, Election.PREFERRED)


def elect_leaderless(image: MetadataImage, settings: ControllerSettings) -> Decision[bool]:
    """Elect leaders uncleanly where the topic allows it."""
    places = (PartitionRef(*found) for found in image.partitions())
    leaderless = (
        place
        for place in places
        if not place.state.has_leader and allows_unclean_election(image, settings, place.topic.name)
    )
    return _elect(image, settings, leaderless, Election.UNCLEAN)


def _elect(
    image: MetadataImage, settings: ControllerSettings, places: Iterable[PartitionRef], election: Election
) -> Decision[bool]:
    records: list[MetadataRecord] = []
    for place in places:
        rules = election_rules(image, settings, place, election=election)
        record = change_partition(place.topic.id, place.number, place.state, TargetReplicas(), rules)
        if record is not None:
            records.append(record)
            if len(records) >= MAX_ELECTIONS:
                return Decision(records, True)
    return Decision(records, False)
