"""The records that a new controller writes before any request. Pure.

===========================================  =====================================================================
log                                          records
===========================================  =====================================================================
has no metadata records                      the first records from formatting, as a transaction; with eligible
                                             leader replicas also ``min.insync.replicas`` for all brokers
ends in an unfinished transaction            an abort of the transaction (an empty log then begins again)
any other                                    none
===========================================  =====================================================================

Source: Kafka's ``ActivationRecordsGenerator``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelog.server.metadata.controller.decision import ControllerSettings
from tidelog.server.metadata.controller.feature_updates import min_isr_records
from tidelog.server.metadata.features import keeps_eligible_leaders
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.kraft.replay import MetadataReplay
from tidelog.server.metadata.metadata_record import MetadataRecord

_TRANSACTIONS_SINCE: Final = 13
"""The metadata.version 3.6-IV1."""
_ABORT: Final = MetadataRecord("AbortTransactionRecord", {"reason": "Controller failover"})


def activation_records(
    replay: MetadataReplay, bootstrap: Sequence[MetadataRecord], settings: ControllerSettings
) -> list[MetadataRecord]:
    """Return the records; ``bootstrap`` has the first records of a new cluster."""
    records = [_ABORT] if replay.is_in_transaction else []
    if not replay.is_empty:
        return records
    image = MetadataImage()
    for record in bootstrap:
        image.apply(record)
    first = list(bootstrap)
    if keeps_eligible_leaders(image):
        first += min_isr_records(image, settings)
    if image.metadata_version < _TRANSACTIONS_SINCE:
        return records + first
    begin = MetadataRecord("BeginTransactionRecord", {"name": "Bootstrap records"})
    return [*records, begin, *first, MetadataRecord("EndTransactionRecord", {})]
