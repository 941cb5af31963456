"""The rules for the batch retention of a clean, computed on columns. Pure.

The first row that matches decides:

=========================================================================  ============================================
batch                                                                      stays
=========================================================================  ============================================
it has the last data offset of an active producer                          without records, if it keeps none
a marker with the epoch of an active producer without data in that epoch   the same
it is the last batch below the high watermark                              the same: consumers find the log end by it
aborted data; a marker whose delete horizon has passed                     never
any other                                                                  if it keeps a record
=========================================================================  ============================================

Records of the fourth row are removed even if an earlier row keeps their batch. A discardable marker without a delete
horizon gets one, so that current readers still see it. Source: Kafka's ``Cleaner.cleanInto`` (KIP-98, KIP-534).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tidelog.kernel import BatchTable
from tidelog.record.cleaning import BatchRetention, Retention
from tidelog.storage.producer import LastRecord

Mask = npt.NDArray[np.bool_]


class RetentionRules:
    """The rules for a group of segments."""

    def __init__(self, last_records: Mapping[int, LastRecord], *, high_watermark: int, now_ms: int) -> None:
        self._high_watermark = high_watermark
        self._now_ms = now_ms
        ids = sorted(last_records)
        ends = [last_records[producer_id] for producer_id in ids]
        self._ids = np.array(ids, np.int64)
        self._data_offsets = np.array([end.last_data_offset for end in ends], np.int64)
        self._epochs = np.array([end.producer_epoch for end in ends], np.int16)

    def decide(self, table: BatchTable, discardable: Mask) -> BatchRetention:
        """Return the decisions for a table's batches; ``discardable`` comes from ``CleanedTransactions``."""
        horizon_passed = table.has_delete_horizon & (table.base_timestamp <= self._now_ms)
        discard = discardable & (~table.is_control | horizon_passed)
        retention = np.where(discard, np.uint8(Retention.DELETE), np.uint8(Retention.DELETE_EMPTY))
        retention[self.stays_empty(table)] = Retention.RETAIN_EMPTY
        return BatchRetention(
            retention=retention, discard=discard, ends_empty_transaction=discardable & table.is_control
        )

    def stays_empty(self, table: BatchTable) -> Mask:
        """Return the mask of the batches that stay even without records."""
        is_last: Mask = table.last_offset == self._high_watermark - 1
        return is_last | self._is_last_of_producer(table)

    def _is_last_of_producer(self, table: BatchTable) -> Mask:
        if not len(self._ids) or table.summary.producer_id < 0:
            return np.zeros(len(table), np.bool_)
        at = np.minimum(np.searchsorted(self._ids, table.producer_id), len(self._ids) - 1)
        data_offset = self._data_offsets[at]
        is_last_data = table.last_offset == data_offset
        is_last_marker = table.is_control & (table.producer_epoch == self._epochs[at])
        is_last: Mask = np.where(data_offset >= 0, is_last_data, is_last_marker) & (self._ids[at] == table.producer_id)
        return is_last
