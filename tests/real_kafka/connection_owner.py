"""The owner of a TCP connection, from Linux' /proc. A proxy so learns which node has connected."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOCAL, _REMOTE, _INODE = 1, 2, 9
"""The columns of a table."""


def connection_owner(port: int, remote_port: int, processes: Mapping[int, int]) -> int | None:
    """Return the key of the process id that owns the connection's end on ``port``, or None if it is none of them."""
    links = {f"socket:[{inode}]" for inode in _inodes(port, remote_port)}
    for key, process_id in processes.items():
        if not links.isdisjoint(_descriptors(process_id)):
            return key
    return None


def _inodes(port: int, remote_port: int) -> Iterator[str]:
    for table in _TABLES:
        if not table.exists():
            continue
        for line in table.read_text().splitlines()[1:]:
            columns = line.split()
            if _port(columns[_LOCAL]) == port and _port(columns[_REMOTE]) == remote_port:
                yield columns[_INODE]


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def _descriptors(process_id: int) -> Iterator[str]:
    """Yield the targets of a process's descriptors. Those of an ended process, and closed ones, are left out."""
    try:
        names = os.listdir(f"/proc/{process_id}/fd")
    except OSError:
        return
    for name in names:
        try:
            yield os.readlink(f"/proc/{process_id}/fd/{name}")
        except OSError:
            continue
