"""A file system in memory that knows which data is safe, for tests of power loss at any call.

Programs see a local file system (``simulated_file_system``). The disk also keeps the state that ``File.sync`` and
``sync_dir`` made safe, and every change since. ``after_crash`` returns the disk as it may be found after a power loss,
and ``survivors`` returns many of these disks.

The disk guarantees the least that a careful program can expect of the usual file systems (ext4 with ``data=ordered``,
XFS). This is a bit less than each of them promises:

==================  ==============================================================================================
contents            any sectors (512 bytes) of unsynced data may be new or old, in any sequence. A file may have grown
                    without its data, and then has zeros there (``file_node``)
names               any of the unsynced creations, renames and removals may be there, in any sequence, also a later one
                    without an earlier one of other names (``directory_node``)
a synced file       has its contents, but perhaps not its name, which is safe after ``sync_dir``
a link              is a name like any other. All names of a file show the same contents afterwards
a rename            is there or not, atomically. It does not make contents safe: a file that was written, not synced
                    and renamed over another may be found empty
never happens       a sector half written; synced data changed by unsynced data; a truncation undone that the size
                    shows; two names of one file without a ``link``, or none for a renamed one; bytes that no program
                    wrote, except zeros
==================  ==============================================================================================

A file system with a journal keeps the names in sequence. Its states are among those tried here. Thread rule: any
thread, as the FileSystem protocol says. Only one thread may take the power.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from tidelog.storage.fs.os_errors import SystemCall
from tidelog.testing.disk.directory_node import DirectoryNode
from tidelog.testing.disk.disk_calls import CHANGING_CALLS, FILE_CALLS, PATH_CALLS, DiskCall
from tidelog.testing.disk.disk_faults import DiskFault
from tidelog.testing.disk.disk_tree import export_tree, files_below, import_tree, sync_below
from tidelog.testing.disk.simulated_file_system import SimulatedFileSystem
from tidelog.testing.disk.survival import Chance, Chooser, EveryChoice, Kept, Lost

ROOT = Path("/")
_SEEDS = 1_000_003
"""A factor that keeps the seeds of one sample apart from those of the next."""


class SimulatedDisk(SimulatedFileSystem):
    """A FileSystem that a test can inspect, stop and damage. The methods of this class are not calls of the disk."""

    @classmethod
    def load(cls, source: Path, at: Path | None = None) -> SimulatedDisk:
        """Return a disk with the files of a real directory, below ``at`` or at the same path. All of it is safe."""
        disk = cls()
        at = source if at is None else at
        disk.make_dir(at)
        import_tree(source, disk._directory(at))
        disk.sync_all()
        disk._gate.calls.clear()
        return disk

    def export(self, target: Path, root: Path = ROOT) -> None:
        """Copy the files below ``root`` into a real directory, with their times."""
        with self._gate.lock:
            export_tree(self._directory(root), target)

    # --- contents ---

    @property
    def calls(self) -> Sequence[DiskCall]:
        """The changing calls so far, including failed ones."""
        return self._gate.calls

    @property
    def free_bytes(self) -> int | None:
        """The space for new sectors; None for no limit but memory."""
        return self._gate.free_bytes

    @free_bytes.setter
    def free_bytes(self, free_bytes: int | None) -> None:
        self._gate.free_bytes = free_bytes

    def files(self, root: Path = ROOT) -> dict[Path, bytes]:
        """Return the contents of all files below ``root``, by path."""
        with self._gate.lock:
            return dict(files_below(self._directory(root), root))

    def sync_all(self) -> None:
        """Make everything safe, as a starting point of a test."""
        with self._gate.lock:
            self._journal.sync_all()
            sync_below(self._root)

    # --- the power ---

    @property
    def before_call(self) -> Callable[[DiskCall], None] | None:
        """A function called before each changing call. It may look at the disks that would survive at that moment."""
        return self._gate.before_call

    @before_call.setter
    def before_call(self, told: Callable[[DiskCall], None] | None) -> None:
        self._gate.before_call = told

    @property
    def is_crashed(self) -> bool:
        return self._gate.is_crashed

    def crash(self) -> None:
        """Take the power: every later call raises PowerLoss, except for ``close`` and ``release``."""
        self._gate.is_crashed = True

    def crash_before(self, call: int) -> None:
        """Take the power at the changing call with this number, from 0."""
        self._gate.crash_at = call

    def after_crash(self, choice: Chooser | int) -> SimulatedDisk:
        """Return a new disk, as this one may be found after a power loss. ``choice`` is a seed or a Chooser."""
        chooser = Chance(choice) if isinstance(choice, int) else choice
        with self._gate.lock:
            found = SimulatedDisk(clock=self._gate.clock, free_bytes=self.free_bytes)
            found._root = self._journal.survivor(self._root, chooser)
            return found

    def survivors(self, limit: int = 100, *, seed: int = 0) -> Iterator[SimulatedDisk]:
        """Yield different disks that may be found: all if there are at most ``limit``, else ``limit`` of them, sampled
        by seed.

        The first one has none of the unsynced changes, and the second one has all of them.
        """
        yield from _different((self.after_crash(Lost()), self.after_crash(Kept()), *self._states(limit, seed)), limit)

    # --- faults ---

    def fail(self, fault: DiskFault) -> DiskFault:
        """Add a fault."""
        self._gate.faults.append(fault)
        return fault

    def heal(self, *faults: DiskFault) -> None:
        """Remove faults; all if none is named."""
        self._gate.faults[:] = [one for one in self._gate.faults if faults and one not in faults]

    def remount_read_only(self, below: Path = ROOT) -> DiskFault:
        """Fail every changing call, like a file system after an error from which it cannot recover."""
        return self.fail(DiskFault(errno=errno.EROFS, calls=CHANGING_CALLS | {"open_to_write"}, below=below))

    def vanish(self, mount: Path) -> tuple[DiskFault, DiskFault]:
        """Remove a mounted disk: no path below it is found, and open files report input/output errors."""
        by_path = self.fail(DiskFault(errno=errno.ENOENT, calls=PATH_CALLS, below=mount))
        by_file = self.fail(DiskFault(errno=errno.EIO, calls=FILE_CALLS, below=mount))
        return by_path, by_file

    # --- inside ---

    def _states(self, limit: int, seed: int) -> list[SimulatedDisk]:
        """Return every state. If there are many, return a sample larger than ``limit``, because some will be equal."""
        every, states = EveryChoice(), list[SimulatedDisk]()
        while len(states) < 2 * limit:
            states.append(self.after_crash(every))
            if not every.advance():
                return states
        return [self.after_crash(Chance(seed * _SEEDS + number)) for number in range(2 * limit)]

    def _directory(self, path: Path) -> DirectoryNode:
        with SystemCall("look at", path):
            return self._require_directory(path)


def _different(disks: Iterable[SimulatedDisk], limit: int) -> Iterator[SimulatedDisk]:
    """Yield the first ``limit`` disks with different files."""
    seen = set[frozenset[tuple[Path, bytes]]]()
    for disk in disks:
        state = frozenset(disk.files().items())
        if state not in seen and len(seen) < limit:
            seen.add(state)
            yield disk
