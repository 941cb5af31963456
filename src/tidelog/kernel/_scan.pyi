from typing_extensions import Buffer

from tidelog.kernel.table import BatchTable

def scan_batches(
    buffer: Buffer, start: int = 0, end: int | None = None, *, base_position: int = 0, verify_crc: bool = True
) -> BatchTable: ...
def scan_headers(descriptor: int, start: int, end: int) -> BatchTable: ...
