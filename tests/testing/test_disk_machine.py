"""The same random calls on a real directory and on a simulated disk: equal results, equal errors."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from state_machines import run_machine
from tidelog.model import TidelogError
from tidelog.storage.fs import LOCAL, File, FileSystem
from tidelog.testing import Kept, SimulatedDisk

NAMES = st.sampled_from(["a", "b", "c", "dir", "dir/a", "dir/b", "dir/sub", "dir/sub/a", "a/below", "missing/a"])
POSITIONS = st.sampled_from([0, 1, 511, 512, 513, 1000, 1024, 5000]) | st.integers(0, 3000)
DATA = st.binary(max_size=20) | st.builds(lambda size, of: bytes([of]) * size, st.integers(0, 2000), st.integers(1, 9))
AT = Path("/disk")


class DiskMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp())
        self.disk = SimulatedDisk()
        self.disk.make_dir(AT)
        self.files: list[tuple[File, File]] = []

    def teardown(self) -> None:
        for pair in self.files:
            for file in pair:
                file.close()
        shutil.rmtree(self.home)

    def both(self, call: Callable[[FileSystem, Path], Any]) -> tuple[Any, Any]:
        """Return the results on the real and the simulated disk. An error becomes its message."""
        return outcome(call, LOCAL, self.home), outcome(call, self.disk, AT)

    def check(self, call: Callable[[FileSystem, Path], Any]) -> None:
        real, simulated = self.both(call)
        assert simulated == real

    @initialize()
    def begin(self) -> None:
        self.check(lambda fs, root: fs.make_dir(root / "dir" / "sub"))

    @rule(name=NAMES, write=st.booleans(), create=st.booleans())
    def open(self, name: str, write: bool, create: bool) -> None:
        real, simulated = self.both(lambda fs, root: fs.open(root / name, write=write, create=create))
        if isinstance(real, str) or isinstance(simulated, str):
            assert simulated == real
        else:
            self.files.append((real, simulated))

    @rule(name=NAMES)
    def look(self, name: str) -> None:
        self.check(lambda fs, root: fs.list_names(root / name))
        self.check(lambda fs, root: fs.list_directories(root / name))
        self.check(lambda fs, root: fs.exists(root / name))
        self.check(lambda fs, root: fs.stat(root / name).is_dir)
        self.check(lambda fs, root: fs.stat(root / name).is_dir or fs.stat(root / name).size)
        self.check(lambda fs, root: fs.stat(root / name).is_dir or fs.stat(root / name).links)

    @rule(old=NAMES, new=NAMES)
    def rename(self, old: str, new: str) -> None:
        self.check(lambda fs, root: fs.rename(root / old, root / new))

    @rule(old=NAMES, new=NAMES)
    def link(self, old: str, new: str) -> None:
        def link_and_compare(fs: FileSystem, root: Path) -> tuple[bool, int, bool]:
            linked = fs.link(root / old, root / new)
            one, other = fs.stat(root / old), fs.stat(root / new)
            return linked, one.links, one.file_id == other.file_id

        self.check(link_and_compare)

    @rule(name=NAMES, missing_ok=st.booleans())
    def remove(self, name: str, missing_ok: bool) -> None:
        self.check(lambda fs, root: fs.remove(root / name, missing_ok=missing_ok))

    @rule(name=NAMES)
    def change_directories(self, name: str) -> None:
        self.check(lambda fs, root: fs.remove_dir(root / name))

    @rule(name=NAMES)
    def make_dir(self, name: str) -> None:
        self.check(lambda fs, root: fs.make_dir(root / name))
        self.check(lambda fs, root: fs.sync_dir(root / name))

    @rule(name=NAMES, mtime_ms=st.integers(0, 2**41))
    def set_mtime(self, name: str, mtime_ms: int) -> None:
        def set_and_ask(fs: FileSystem, root: Path) -> int:
            fs.set_mtime(root / name, mtime_ms)
            return fs.stat(root / name).mtime_ms

        self.check(set_and_ask)

    @rule(name=NAMES)
    def lock(self, name: str) -> None:
        def lock_and_look(fs: FileSystem, root: Path) -> list[Any]:
            path = root / name
            before = fs.lock_holder(path)
            held = fs.lock(path)
            try:
                return [
                    before,
                    held.path == path,
                    fs.lock_holder(path),
                    outcome(lambda fs, _: fs.lock(path), fs, root),
                    outcome(lambda fs, _: fs.open(path), fs, root),
                ]
            finally:
                held.release()
                held.release()

        self.check(lock_and_look)
        self.check(lambda fs, root: fs.lock_holder(root / name))

    # --- open files ---

    def check_file(self, data: st.DataObject, call: Callable[[File], Any]) -> None:
        real, simulated = data.draw(st.sampled_from(self.files))
        on_real = outcome(lambda *_: call(real), LOCAL, self.home)
        assert outcome(lambda *_: call(simulated), self.disk, AT) == on_real

    @precondition(lambda self: self.files)
    @rule(data=st.data(), content=DATA, position=POSITIONS)
    def write(self, data: st.DataObject, content: bytes, position: int) -> None:
        self.check_file(data, lambda file: file.pwrite(memoryview(content), position))

    @precondition(lambda self: self.files)
    @rule(data=st.data(), length=POSITIONS, position=POSITIONS | st.just(-1))
    def read(self, data: st.DataObject, length: int, position: int) -> None:
        def read_both_ways(file: File) -> tuple[bytes, int, bytes]:
            buffer = bytearray(length)
            return file.pread(length, position), file.pread_into(buffer, position), bytes(buffer)

        self.check_file(data, read_both_ways)

    @precondition(lambda self: self.files)
    @rule(data=st.data(), size=POSITIONS | st.just(-1), allocate=st.booleans())
    def resize(self, data: st.DataObject, size: int, allocate: bool) -> None:
        self.check_file(data, lambda file: file.allocate(size) if allocate else file.truncate(size))

    @precondition(lambda self: self.files)
    @rule(data=st.data(), size=POSITIONS, content=DATA, position=POSITIONS)
    def map(self, data: st.DataObject, size: int, content: bytes, position: int) -> None:
        """The mapping shows later writes."""

        def written_through(file: File) -> tuple[bytes, bytes]:
            mapping = file.map(size)
            try:
                before = bytes(memoryview(mapping))
                file.pwrite(content, position)
                return before, bytes(memoryview(mapping))
            finally:
                mapping.close()

        self.check_file(data, written_through)

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def sync_or_close(self, data: st.DataObject) -> None:
        self.check_file(data, lambda file: file.sync())
        if data.draw(st.booleans()):
            self.check_file(data, lambda file: file.close())

    # --- invariants ---

    @invariant()
    def the_trees_are_equal(self) -> None:
        real = {path.relative_to(self.home): path.read_bytes() for path in self.home.rglob("*") if path.is_file()}
        assert {path.relative_to(AT): data for path, data in self.disk.files(AT).items()} == real

    @invariant()
    def all_that_is_there_survives_where_nothing_is_lost(self) -> None:
        assert self.disk.after_crash(Kept()).files() == self.disk.files()


def outcome(call: Callable[..., Any], fs: FileSystem, root: Path) -> Any:
    try:
        return call(fs, root)
    except (TidelogError, ValueError) as error:
        return f"{type(error).__name__}: {error}".replace(str(root), "ROOT")


def test_a_simulated_disk_is_as_a_local_one() -> None:
    run_machine(DiskMachine, steps=30, examples=40)


@pytest.mark.slow
def test_a_simulated_disk_is_as_a_local_one_at_length() -> None:
    run_machine(DiskMachine, steps=60, examples=3000)
