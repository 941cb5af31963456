from typing_extensions import Buffer

from tidelog.kernel.faults import Fault
from tidelog.kernel.problems import Problem

class ProduceRules:
    def __init__(
        self,
        *,
        log_append_time: bool = False,
        before_max_ms: int = ...,
        after_max_ms: int = ...,
        max_batch_bytes: int = ...,
        require_keys: bool = False,
        from_client: bool = True,
        single_batch: bool = False,
    ) -> None: ...

class Validation:
    first_offset: int
    @property
    def last_offset(self) -> int: ...
    @property
    def record_count(self) -> int: ...
    @property
    def batch_count(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def offset_of_max_timestamp(self) -> int: ...
    @property
    def last_offset_of_max_batch(self) -> int: ...
    @property
    def needs_decompression(self) -> bool: ...
    @property
    def problem(self) -> Problem: ...
    @property
    def fault(self) -> Fault: ...
    @property
    def record_index(self) -> int: ...
    def __bool__(self) -> bool: ...

def validate_batches(
    buffer: Buffer, rules: ProduceRules, next_offset: int, leader_epoch: int, now_ms: int
) -> Validation: ...
def validate_records(
    payload: Buffer,
    rules: ProduceRules,
    now_ms: int,
    *,
    base_offset: int,
    base_timestamp: int,
    max_timestamp: int,
    attributes: int,
    record_count: int,
) -> Validation: ...
def set_max_timestamp(buffer: Buffer, max_timestamp: int, log_append: bool = False) -> None: ...
