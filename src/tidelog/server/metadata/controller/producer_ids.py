"""Blocks of producer ids. Each block goes to one broker, and never twice.

Pure. Source: Kafka's ``ProducerIdControlManager``.
"""

from __future__ import annotations

from typing import Final

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.metadata.controller.decision import Decision
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.metadata_record import MetadataRecord

BLOCK_SIZE: Final = 1000
_LONG_MAX = 2**63 - 1


def allocate_producer_ids(image: MetadataImage, broker_id: int, broker_epoch: int) -> Decision[range]:
    """Return the next block. Raise ApiError(UNKNOWN_SERVER_ERROR) if no ids are left."""
    first = image.next_producer_id
    if first > _LONG_MAX - BLOCK_SIZE:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit",
        )
    end = first + BLOCK_SIZE
    fields = {"brokerId": broker_id, "brokerEpoch": broker_epoch, "nextProducerId": end}
    return Decision([MetadataRecord("ProducerIdsRecord", fields)], range(first, end))
