"""The hot loops, compiled: checksums, batch table, columns, produce checks, search, LZ4, cleaning.

Every kernel has a plain twin in ``tests/kernel/reference``, and one test suite runs over both.
"""

import tidelog.kernel.compiled  # noqa: F401  # first, since it names the missing kernels
from tidelog.kernel._clean import filter_batches, pack_batches
from tidelog.kernel._crc import crc32, crc32c, crc32c_implementations
from tidelog.kernel._decode import ColumnDecoder
from tidelog.kernel._encode import ColumnEncoder, encode_batch, encode_payload
from tidelog.kernel._encode_records import encode_records
from tidelog.kernel._index_build import select_index_entries
from tidelog.kernel._log_end import PENDING_ENTRIES, IndexEnd, IndexProgress, OffsetIndexEnd, SegmentEnd, TimeIndexEnd
from tidelog.kernel._log_offsets import LogOffsets
from tidelog.kernel._lz4 import open_lz4_frames
from tidelog.kernel._map_keys import hash_batch_keys, put_hashed_keys
from tidelog.kernel._memory import take_buffer
from tidelog.kernel._objects import byte_strings, named_tuples
from tidelog.kernel._offset_map import OffsetMap
from tidelog.kernel._open_file import OpenFile
from tidelog.kernel._partition_keys import partition_keys
from tidelog.kernel._plain_append import PlainAppends, continues, last_sequence_of, next_sequence
from tidelog.kernel._plain_fetch import PlainFetch, PlainFetched
from tidelog.kernel._plain_produce import PlainProduce
from tidelog.kernel._plain_read import PlainReads
from tidelog.kernel._request_meter import RECENT, ApiTimes, ClientRequests, RequestMeter
from tidelog.kernel._scan import BatchScan, scan_batches, scan_headers
from tidelog.kernel._seal import seal_batch
from tidelog.kernel._search import lookup_index, lookup_index_above
from tidelog.kernel._survey import survey_directories
from tidelog.kernel._validate import ProduceRules, Validation, set_max_timestamp, validate_batches, validate_records
from tidelog.kernel._whole_file import read_file, replace_file, write_file
from tidelog.kernel.batch_retention import BatchRetention, CleaningRules, FilteredBatches, Retention
from tidelog.kernel.columns import Payload, RecordColumns
from tidelog.kernel.faults import Fault
from tidelog.kernel.hashed_keys import HashedKeys
from tidelog.kernel.index_key import IndexKey
from tidelog.kernel.problems import Problem
from tidelog.kernel.table import BatchRow, BatchTable, Stop

__all__ = [
    "PENDING_ENTRIES",
    "RECENT",
    "ApiTimes",
    "BatchRetention",
    "BatchRow",
    "BatchScan",
    "BatchTable",
    "CleaningRules",
    "ClientRequests",
    "ColumnDecoder",
    "ColumnEncoder",
    "Fault",
    "FilteredBatches",
    "HashedKeys",
    "IndexEnd",
    "IndexKey",
    "IndexProgress",
    "LogOffsets",
    "OffsetIndexEnd",
    "OffsetMap",
    "OpenFile",
    "Payload",
    "PlainAppends",
    "PlainFetch",
    "PlainFetched",
    "PlainProduce",
    "PlainReads",
    "Problem",
    "ProduceRules",
    "RecordColumns",
    "RequestMeter",
    "Retention",
    "SegmentEnd",
    "Stop",
    "TimeIndexEnd",
    "Validation",
    "byte_strings",
    "continues",
    "crc32",
    "crc32c",
    "crc32c_implementations",
    "encode_batch",
    "encode_payload",
    "encode_records",
    "filter_batches",
    "hash_batch_keys",
    "last_sequence_of",
    "lookup_index",
    "lookup_index_above",
    "named_tuples",
    "next_sequence",
    "open_lz4_frames",
    "pack_batches",
    "partition_keys",
    "put_hashed_keys",
    "read_file",
    "replace_file",
    "scan_batches",
    "scan_headers",
    "seal_batch",
    "select_index_entries",
    "set_max_timestamp",
    "survey_directories",
    "take_buffer",
    "validate_batches",
    "validate_records",
    "write_file",
]
