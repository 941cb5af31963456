"""Records of a transaction: before they are appended their partitions have to be part of it (KIP-890).

All of a request belong to one producer; else INVALID_PRODUCER_ID_MAPPING for the request as a whole. A partition that
does not become part of the transaction is refused, the others go on with a guard each.
Called by: the produce handler. Thread rule: the loop's. Source: Kafka's ``ReplicaManager.handleProduceAppend``.
"""

from __future__ import annotations

from collections.abc import Collection

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.handlers.data.produced_part import ProducedPart
from tidelog.server.transactions.rules.transaction import ProducerIdAndEpoch
from tidelog.server.transactions.verification import Membership, Operation, Verification, produce_error


async def verify_parts(
    verification: Verification, transactional_id: str, version: int, parts: Collection[ProducedPart]
) -> None:
    """Those of a transaction; ``version``: of the request."""
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
