"""The deletion of a partition's oldest records by DeleteRecords (KIP-107).

======================  ==============================================================  ===============================
step                    what it does                                                    thread
======================  ==============================================================  ===============================
``deletable``           check the request, and resolve the offset                       the event loop
``delete_below``        move the log start forward; it may wait for the disk            any
``check_delayed``       complete other requests; a method of ``Partition``              the event loop
``low_watermark``       what the response waits for                                     the event loop
======================  ==============================================================  ===============================

Source: Kafka's ``Partition.deleteRecordsOnLeader`` and ``lowWatermarkIfLeader``.
"""

from __future__ import annotations

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.replicas.partition import Partition
from tidelog.storage.log.partition_log import PartitionLog

UP_TO_HIGH_WATERMARK = -1
"""The offset with which all records below the high watermark are deleted."""


def deletable(partition: Partition, offset: int) -> tuple[PartitionLog, int]:
    """Return the log and the resolved offset.

    Raise ApiError as ``leading_log`` does, POLICY_VIOLATION if the topic's cleanup policy has no "delete", and
    OFFSET_OUT_OF_RANGE if the offset is negative.
    """
    log = partition.leading_log()
    if "delete" not in log.config.cleanup_policy:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"Records of partition {partition.topic_partition} can not be deleted due to the configured policy",
        )
    wanted = log.high_watermark if offset == UP_TO_HIGH_WATERMARK else offset
    if wanted < 0:
        raise ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"The offset {wanted} for partition {partition.topic_partition} is not valid",
        )
    return log, wanted


def delete_below(partition: Partition, log: PartitionLog, wanted: int) -> bool:
    """Delete the records below ``wanted``. Return True if any were deleted. Raise OffsetOutOfRangeError if the offset
    is above the high watermark."""
    return partition.change(lambda log: log.maybe_increment_log_start_offset(wanted), log)


def low_watermark(partition: Partition) -> int:
    """Return the smallest log start of the leader, of its followers that are alive, and of the future log during a
    move. Raise ApiError as ``leading_log`` does."""
    partition.leading_log()
    future = partition.future_log
    starts = [partition.leading.low_watermark] + ([] if future is None else [future.log_start_offset])
    return min(starts)
