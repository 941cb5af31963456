"""A manager compared with a dict of lists: random work over three directories that stop, crash and fail."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from log_maker import batch
from state_machines import run_machine
from storage.manager.manager_home import NOW, DiskHome, values
from storage.manager.manager_model import Model, ModelLog
from tidelog.model import StorageError, TopicPartition, UnknownTopicOrPartitionError
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.manager.log_manager import LogManager

PARTITIONS = [TopicPartition("t", number) for number in range(3)]
partitions = st.sampled_from(PARTITIONS)
directories = st.integers(0, 2)


class ManagerMachine(RuleBasedStateMachine):
    manager: LogManager

    @initialize()
    def begin(self) -> None:
        self.home = DiskHome(directories=3)
        self.home.topic_settings["t"] = {"retention.bytes": "3000"}
        self.model: Model = {}
        self.places: dict[TopicPartition, object] = {}
        self.broken: set[object] = set()
        self.number = 0
        self.manager = self.home.start()

    # --- one partition ---

    @rule(partition=partitions)
    def create(self, partition: TopicPartition) -> None:
        if self.is_lost(partition):
            return
        try:
            self.manager.get_or_create(partition, is_new=True)
        except StorageError:
            self.require_broken()
        else:
            self.model.setdefault(partition, ModelLog())

    @rule(partition=partitions, counts=st.lists(st.integers(1, 4), min_size=1, max_size=6), elects=st.booleans())
    def append(self, partition: TopicPartition, counts: list[int], elects: bool) -> None:
        log, model = self.pick(partition)
        if log is None:
            return
        model.epoch += elects
        for count in counts:
            self.number += 1
            written = [b"%06d.%d." % (self.number, record) * 6 for record in range(count)]
            try:
                log.append_as_leader(bytearray(batch(0, written, timestamp=NOW)), leader_epoch=model.epoch)
            except StorageError:
                self.require_broken()
                return
            model.append(written)

    @rule(partition=partitions)
    def flush(self, partition: TopicPartition) -> None:
        log, model = self.pick(partition)
        if log is not None and self.does(log.flush):
            model.flushed = model.end

    @rule(partition=partitions, part=st.floats(0, 1))
    def delete_records(self, partition: TopicPartition, part: float) -> None:
        log, model = self.pick(partition)
        if log is not None:
            offset = model.start + int((model.end - model.start) * part)
            if self.does(lambda: log.maybe_increment_log_start_offset(offset)):
                model.start = offset

    @rule(partition=partitions, part=st.floats(0, 1))
    def truncate(self, partition: TopicPartition, part: float) -> None:
        """Truncate and flush at once: an unsynced truncation may be undone by a crash."""
        log, model = self.pick(partition)
        if log is None or self.broken or not model.batches:
            return
        offset = model.batches[int((len(model.batches) - 1) * part)]
        if offset >= log.base_offsets[0]:
            self.manager.truncate_to({partition: offset})
            log.flush()
            model.truncate(offset)
            model.flushed = model.end

    @rule(partition=partitions, ahead=st.integers(0, 20))
    def begin_anew(self, partition: TopicPartition, ahead: int) -> None:
        log, model = self.pick(partition)
        if log is not None and not self.broken:
            self.manager.truncate_fully_and_start_at(partition, model.end + ahead)
            log.flush()
            model.begin_at(model.end + ahead)

    @rule(partition=partitions)
    def apply_retention(self, partition: TopicPartition) -> None:
        log, _ = self.pick(partition)
        if log is not None:
            self.does(log.delete_old_segments)

    @rule(partition=partitions, set_aside=st.booleans())
    def delete(self, partition: TopicPartition, set_aside: bool) -> None:
        if self.is_lost(partition):
            return
        try:
            deleted = self.manager.delete(partition, is_stray=set_aside)
        except StorageError:
            assert self.broken
            self.home.clock.sleep_ms(0)
            return
        if deleted is None:
            assert partition not in self.model
        self.model.pop(partition, None)

    # --- moves ---

    @rule(partition=partitions, number=directories)
    def move(self, partition: TopicPartition, number: int) -> None:
        log, _ = self.pick(partition)
        if log is not None:
            self.does(lambda: self.manager.move(partition, self.home.paths[number]))

    @rule(partition=partitions)
    def copy_some(self, partition: TopicPartition) -> None:
        move = self.manager.moves.get(partition)
        if move is not None and not self.is_lost(partition):
            self.does(move.copy)

    @rule(partition=partitions)
    def end_move(self, partition: TopicPartition) -> None:
        log, model = self.pick(partition)
        if log is not None and self.does(lambda: self.manager.run_move(partition)):
            model.flushed = model.end if self.manager.log(partition) is not log else model.flushed

    # --- all partitions ---

    @rule()
    def checkpoint(self) -> None:
        self.manager.checkpoint_recovery_points()
        self.manager.checkpoint_log_starts()
        self.home.clock.sleep_ms(0)

    @rule(seconds=st.sampled_from([1, 40, 700]))
    def let_time_pass(self, seconds: int) -> None:
        self.home.clock.sleep_ms(seconds * 1000)

    @rule()
    def stop_and_start(self) -> None:
        self.manager.shutdown()
        if not self.broken:
            for model in self.model.values():
                model.flushed = model.end
        self.start(is_exact=not self.broken)

    @rule()
    def kill(self) -> None:
        self.home.kill(self.manager)
        self.start()

    @rule(seed=st.integers(0, 1000))
    def lose_power(self, seed: int) -> None:
        self.home.crash(self.manager, seed)
        self.start(is_whole=False)

    @precondition(lambda self: len(self.broken) < 2)
    @rule(number=directories)
    def break_a_disk(self, number: int) -> None:
        self.home.break_disk(self.home.paths[number])
        self.broken.add(self.home.paths[number])

    # --- invariants ---

    @invariant()
    def it_is_the_model(self) -> None:
        if not hasattr(self, "manager"):
            return
        assert set(self.manager.offline) <= self.broken
        for partition in PARTITIONS:
            if self.is_lost(partition):
                with pytest.raises(StorageError, match="is offline"):
                    self.manager.require(partition)
            elif partition not in self.model:
                with pytest.raises(UnknownTopicOrPartitionError):
                    self.manager.require(partition)
            else:
                self.compare(partition)

    def compare(self, partition: TopicPartition) -> None:
        log, model = self.manager.require(partition), self.model[partition]
        assert model.start <= log.log_start_offset <= model.end  # retention moves it too
        model.start = log.log_start_offset
        assert log.end_offset == log.high_watermark == model.end
        assert values(log) == model.values
        self.places[partition] = log.directory.parent

    def teardown(self) -> None:
        if hasattr(self, "manager"):
            self.manager.shutdown()

    # --- helpers ---

    def pick(self, partition: TopicPartition) -> tuple[PartitionLog | None, ModelLog]:
        if partition not in self.model or self.is_lost(partition):
            return None, ModelLog()
        return self.manager.require(partition), self.model[partition]

    def is_lost(self, partition: TopicPartition) -> bool:
        return partition in self.model and self.manager.log(partition) is None

    def does(self, work: object) -> bool:
        """Return False if a broken disk prevented the work."""
        try:
            work()  # type: ignore[operator]
        except StorageError:
            self.require_broken()
            return False
        return True

    def require_broken(self) -> None:
        assert self.broken
        self.home.clock.sleep_ms(0)
        assert self.manager.offline

    def start(self, *, is_exact: bool = False, is_whole: bool = True) -> None:
        """Start again with repaired disks, and compare each log with the states that the model allows."""
        if self.manager in self.home.managers:
            self.home.forget(self.manager)
        self.home.disk.heal()
        self.put_away_what_is_old()
        self.broken.clear()
        self.manager = self.home.start()
        for partition, model in self.model.items():
            log = self.manager.require(partition)
            if is_exact:
                assert log.log_start_offset == model.start
            assert log.log_start_offset <= max(model.start, model.flushed)
            assert (model.end if is_whole else model.flushed) <= log.end_offset <= model.end
            found = dict(values(log))
            assert found.items() <= model.written.items()
            sure = model.end if is_whole else model.flushed
            assert found.keys() >= {offset for offset in model.written if log.log_start_offset <= offset < sure}
            model.adopt(log.log_start_offset, log.end_offset, found)

    def put_away_what_is_old(self) -> None:
        """Set aside old logs as an operator would: logs that continued elsewhere or that the model lacks."""
        disk = self.home.disk
        for partition in PARTITIONS:
            for path in self.broken:
                old = self.home.paths[self.home.paths.index(path)] / partition.directory_name  # type: ignore[arg-type]
                if disk.exists(old) and (partition not in self.model or self.places.get(partition) != path):
                    self.number += 1
                    disk.rename(old, old.with_name(f"{old.name}.{self.number}-stray"))
                    disk.sync_dir(old.parent)


def test_random_work() -> None:
    run_machine(ManagerMachine, steps=25, examples=25)


@pytest.mark.slow
def test_much_random_work() -> None:
    run_machine(ManagerMachine, steps=80, examples=300)
