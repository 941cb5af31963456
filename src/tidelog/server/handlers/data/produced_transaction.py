"""Verification of transactional records: their partitions must be part of the transaction (KIP-890).

All transactional batches of a request must have one producer, else the request fails with INVALID_PRODUCER_ID_MAPPING.
A partition that fails verification is refused. Each of the others gets a guard for its append. Thread rule: the event
loop only. Source: Kafka's ``ReplicaManager.handleProduceAppend``.
"""

from __future__ import annotations

from collections.abc import Collection

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.record.internal_records.transaction_record import ProducerIdAndEpoch
from tidelog.server.handlers.data.produced_part import ProducedPart
from tidelog.server.transactions.verification import Membership, Operation, Verification, produce_error


async def verify_parts(
    verification: Verification, transactional_id: str, version: int, parts: Collection[ProducedPart]
) -> None:
    """Verify the transactional parts. ``version`` is the request's."""
    by_name = {part.name: part for part in parts if part.batch.is_of_transaction}
    producers = {_producer(part) for part in by_name.values()}
    if not producers:
        return
    if len(producers) > 1:
        raise ApiError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING, "Transactional records contained more than one producer ID"
        )
    membership = Membership(
        transactional_id=transactional_id,
        producer=producers.pop(),
        sequences={name: part.batch.base_sequence for name, part in by_name.items()},
        operation=Operation.of_produce(version),
    )
    for name, (guard, error) in (await verification.verify(membership)).items():
        if error:
            told = produce_error(error, membership.operation)
            by_name[name].refuse(told.code, told.message)
        else:
            by_name[name].guard = guard


def _producer(part: ProducedPart) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(part.batch.producer_id, part.batch.producer_epoch)
