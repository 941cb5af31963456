"""Comparison of log directories: every byte that the storage layer writes, without the additions of a new leader."""

from __future__ import annotations

from pathlib import Path

METADATA = "__cluster_metadata-0"
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)


def partition_files(directory: Path) -> dict[str, bytes]:
    """Map ``partition/file`` to its content, without the metadata log and leader epochs, which a start changes."""
    return {
        f"{partition.name}/{file.name}": file.read_bytes()
        for partition in sorted(directory.iterdir())
        if partition.is_dir() and partition.name != METADATA
        for file in sorted(partition.iterdir())
        if file.name != "leader-epoch-checkpoint"
    }


def checkpoint_lines(directory: Path) -> dict[str, list[str]]:
    """Return each offset checkpoint's lines, sorted as text, without the metadata log's. Absent files are omitted."""
    metadata = METADATA.replace("-0", " 0 ")
    return {
        name: sorted(line for line in (directory / name).read_text().splitlines() if not line.startswith(metadata))
        for name in CHECKPOINTS
        if (directory / name).exists()
    }


def differences(ours: Path, reference: Path) -> list[str]:
    """List the differences of two log directories, a line each. The list is empty if they are the same.

    Files that the reference's broker renamed to ``.deleted`` count as deleted: it was stopped within the minute before
    it
    removes them. Ours may have none.
    """
    left = partition_files(ours)
    right = {name: data for name, data in partition_files(reference).items() if not name.endswith(".deleted")}
    lines = [f"only in {ours.name}: {name}" for name in left.keys() - right.keys()]
    lines += [f"only in {reference.name}: {name}" for name in right.keys() - left.keys()]
    lines += [
        f"{name}: {len(left[name])} bytes, {reference.name} has {len(right[name])}; first difference at "
        f"{first_difference(left[name], right[name])}"
        for name in left.keys() & right.keys()
        if left[name] != right[name]
    ]
    ours_lines, reference_lines = checkpoint_lines(ours), checkpoint_lines(reference)
    lines += [
        f"{name}: {set(ours_lines.get(name, ())) ^ set(reference_lines.get(name, ()))}"
        for name in ours_lines.keys() | reference_lines.keys()
        if ours_lines.get(name) != reference_lines.get(name)
    ]
    if (ours / ".kafka_cleanshutdown").exists() != (reference / ".kafka_cleanshutdown").exists():
        lines.append("only one of the two has a clean-shutdown marker")
    return sorted(lines)


def first_difference(left: bytes, right: bytes) -> int:
    """Return the position of the first byte that differs (the shorter length if the shorter is a prefix)."""
    return next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
