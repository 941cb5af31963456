"""What a controller writes when it begins to lead, before anything it is asked for. Pure.

===========================================  =====================================================================
the log                                      records
===========================================  =====================================================================
has no metadata records                      those that formatting left, as a transaction; with eligible leader replicas
                                             also ``min.insync.replicas`` for all brokers
ends in a transaction that nobody ended      the transaction is aborted (and, in an empty log, begun again)
otherwise                                    none
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
from tidelog.server.metadata.kraft.replay import Replay
from tidelog.server.metadata.metadata_record import MetadataRecord

_TRANSACTIONS_SINCE: Final = 13
"""metadata.version 3.6-IV1."""
_ABORT: Final = MetadataRecord("AbortTransactionRecord", {"reason": "Controller failover"})


def activation_records(
    replay: Replay, bootstrap: Sequence[MetadataRecord], settings: ControllerSettings
) -> list[MetadataRecord]:
    """``bootstrap``: the records that a new cluster begins with."""
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
