"""A file system in memory that remembers what is safe, so that a test can take its power at any call.

What programs see is what they see of a local one (``simulated_file_system``). Beside it the disk keeps what
``File.sync`` and ``sync_dir`` made safe, and every change since. ``after_crash`` gives the disk as it may be found
after a loss of power; ``survivors`` gives many of those.

What a loss of power may do is the least that the file systems in use (ext4 with ``data=ordered``, XFS) let a careful
program count on, and a bit less than each of them promises:

==================  ==============================================================================================
contents            any sectors (512 bytes) of what was not synced may be there, or be as they were, in any order; a
                    file may have grown without its data, and has zeros there then (``file_node``)
names               any of the creations, renamings and removals that were not synced may be there, in any order, also
                    a later one without an earlier one of other names (``directory_node``)
a synced file       has its contents, but perhaps not its name: that is safe after ``sync_dir``
a renaming          is there or not, as a whole; it does not carry contents along: a file that was written, not synced
                    and renamed over another may be found empty
never happens       a sector half written; what was synced changed by what was not; a cut undone that the size shows;
                    two names of one file, or none of one that was renamed; bytes that nobody wrote, but for zeros
==================  ==============================================================================================

A journal keeps the names in their order: such states are among those that are tried.

Called by: tests. Thread rule: any thread, as the FileSystem protocol says; the power is taken by one.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from tidelog.storage.fs.os_errors import SystemCall
from tidelog.testing.disk.directory_node import DirectoryNode
from tidelog.testing.disk.disk_calls import CHANGING_CALLS, FILE_CALLS, PATH_CALLS, DiskCall
from tidelog.testing.disk.disk_faults import DiskFault
from tidelog.testing.disk.disk_tree import exported, files_below, loaded, sync_below
from tidelog.testing.disk.simulated_file_system import SimulatedFileSystem
from tidelog.testing.disk.survival import Chance, Chooser, EveryChoice, Kept, Lost

ROOT = Path("/")
_SEEDS = 1_000_003
"""So that the seeds of one sample are not those of the next."""


class SimulatedDisk(SimulatedFileSystem):
    """A FileSystem that a test can look into, stop and damage. What is said here is no call of the disk."""

    @classmethod
    def load(cls, source: Path, at: Path | None = None) -> SimulatedDisk:
        """A disk with the files of a real directory, below ``at`` or at the same path; all of it safe."""
        disk = cls()
        at = source if at is None else at
        disk.make_dir(at)
        loaded(source, disk._directory(at))
        disk.sync_all()
        disk._gate.calls.clear()
        return disk

    def export(self, target: Path, root: Path = ROOT) -> None:
        """Write what lies below ``root`` into a real directory, times included."""
        with self._gate.lock:
            exported(self._directory(root), target)

    # --- what is on it ---

    @property
    def calls(self) -> Sequence[DiskCall]:
        """The changing calls so far, those that failed too."""
        return self._gate.calls

    @property
    def free_bytes(self) -> int | None:
        """Room for what takes new sectors; None: as much as there is memory."""
        return self._gate.free_bytes

    @free_bytes.setter
    def free_bytes(self, free_bytes: int | None) -> None:
        self._gate.free_bytes = free_bytes

    def files(self, root: Path = ROOT) -> dict[Path, bytes]:
        """The contents of all files below ``root``, by path."""
        with self._gate.lock:
            return dict(files_below(self._directory(root), root))

    def sync_all(self) -> None:
        """Make everything safe, as a test wants it that begins now."""
        with self._gate.lock:
            self._journal.sync_all()
            sync_below(self._root)

    # --- the power ---

    @property
    def before_call(self) -> Callable[[DiskCall], None] | None:
        """Told before each changing call; it may look at what would survive at that moment."""
        return self._gate.before_call

    @before_call.setter
    def before_call(self, told: Callable[[DiskCall], None] | None) -> None:
        self._gate.before_call = told

    @property
    def is_crashed(self) -> bool:
        return self._gate.is_crashed

    def crash(self) -> None:
        """Take the power: every call from here on raises PowerLoss; ``close`` and ``release`` go through."""
        self._gate.is_crashed = True

    def crash_before(self, call: int) -> None:
        """Take the power at the changing call of that number, from 0."""
        self._gate.crash_at = call

    def after_crash(self, choice: Chooser | int) -> SimulatedDisk:
        """A new disk, as this one may be found once the power is back; ``choice``: a seed, or who decides."""
        chooser = Chance(choice) if isinstance(choice, int) else choice
        with self._gate.lock:
            found = SimulatedDisk(clock=self._gate.clock, free_bytes=self.free_bytes)
            found._root = self._journal.survivor(self._root, chooser)
            return found

    def survivors(self, limit: int = 100, *, seed: int = 0) -> Iterator[SimulatedDisk]:
        """Different disks that may be found: all where there are at most ``limit``, else so many, sampled by seed.

        The first two kept nothing, and everything, of what was not synced.
        """
        yield from _different((self.after_crash(Lost()), self.after_crash(Kept()), *self._states(limit, seed)), limit)

    # --- faults ---

    def fail(self, fault: DiskFault) -> DiskFault:
        """Add a fault."""
        self._gate.faults.append(fault)
        return fault

    def heal(self, *faults: DiskFault) -> None:
        """Take faults away; all where none is named."""
        self._gate.faults[:] = [one for one in self._gate.faults if faults and one not in faults]

    def remount_read_only(self, below: Path = ROOT) -> DiskFault:
        """Whatever would change something fails, as after an error that a file system does not get over."""
        return self.fail(DiskFault(errno=errno.EROFS, calls=CHANGING_CALLS | {"open_to_write"}, below=below))

    def vanish(self, mount: Path) -> tuple[DiskFault, DiskFault]:
        """Take a mounted disk away: no path below is found, open files report input/output errors."""
        by_path = self.fail(DiskFault(errno=errno.ENOENT, calls=PATH_CALLS, below=mount))
        by_file = self.fail(DiskFault(errno=errno.EIO, calls=FILE_CALLS, below=mount))
        return by_path, by_file

    # --- inside ---

    def _states(self, limit: int, seed: int) -> list[SimulatedDisk]:
        """Every state, or where there are many some more than ``limit``, for some will be equal."""
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
    """The first ``limit`` with different files."""
    seen = set[frozenset[tuple[Path, bytes]]]()
    for disk in disks:
        state = frozenset(disk.files().items())
        if state not in seen and len(seen) < limit:
            seen.add(state)
            yield disk
