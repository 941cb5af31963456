"""Operations on a tree of a simulated disk: list, sync, and copy from or to a real directory.

Thread rule: the caller holds the disk's lock.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tidelog.testing.disk.directory_node import DirectoryNode
from tidelog.testing.disk.file_node import FileNode
from tidelog.testing.disk.sector_map import SectorMap


def files_below(directory: DirectoryNode, path: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield paths and contents of all files, as programs see them. ``path`` is the directory's."""
    for name, node in sorted(directory.names.items()):
        if isinstance(node, FileNode):
            yield path / name, node.cached.read(node.cached.size, 0)
        else:
            yield from files_below(node, path / name)


def sync_below(directory: DirectoryNode) -> None:
    """Make the contents of all files safe. The journal does this for names."""
    for node in directory.names.values():
        if isinstance(node, FileNode):
            node.sync()
        else:
            sync_below(node)


def import_tree(source: Path, directory: DirectoryNode) -> None:
    """Copy the contents of a real directory into one of the disk. Links are followed."""
    for path in source.iterdir():
        mtime_ms = path.stat().st_mtime_ns // 1_000_000
        if path.is_dir():
            made = DirectoryNode(mtime_ms)
            import_tree(path, made)
            directory.names[path.name] = directory.synced[path.name] = made
        elif path.is_file():
            content = SectorMap.of(path.read_bytes())
            directory.names[path.name] = directory.synced[path.name] = FileNode(mtime_ms, content)


def export_tree(directory: DirectoryNode, target: Path) -> None:
    """Copy the contents of a directory into a real one, which is created if it is missing."""
    target.mkdir(parents=True, exist_ok=True)
    for name, node in directory.names.items():
        path = target / name
        if isinstance(node, DirectoryNode):
            export_tree(node, path)
            continue
        with path.open("wb") as file:
            for position, content in node.cached.runs():
                file.seek(position)
                file.write(content)
            file.truncate(node.cached.size)
        os.utime(path, ns=(node.mtime_ms * 1_000_000, node.mtime_ms * 1_000_000))
