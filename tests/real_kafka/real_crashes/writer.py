"""The process that is killed: several threads append to one log directory and report each action on stdout.

Run as a program, it stays warm. For every line of JSON on stdin (a round) it forks a process that writes until the next
line asks for its end by SIGKILL. Reports are JSON lines. Each is written at once, so it is complete or missing:

==============================================  =======================================================================
report                                          meaning
==============================================  =======================================================================
begun                                           the round's process runs
opened                                          the directory is open
try WRITER PARTITION NUMBER COUNT               an append of values NUMBER to NUMBER + COUNT - 1 begins
ack WRITER PARTITION NUMBER OFFSETS             it is acknowledged, with these offsets
begin WRITER TRANSACTION                        the writer's next appends belong to this transaction
ending, ended WRITER TRANSACTION IS_COMMITTED   a commit or an abort begins; is acknowledged
flushed PARTITION OFFSET                        everything below OFFSET is on the disk
closing, closed                                 a clean shutdown begins; is complete
failed TEXT                                     an unexpected error
over STATUS                                     the process has ended
==============================================  =======================================================================

Each thread is one writer:

- *plain* writers append single records, batches, and sometimes a bulk that spans segments.
- *short* writers do the same on a topic with retention by size, if the round has housekeeping.
- *once* writers are idempotent producers. They first repeat their last append, acknowledged or not.
- *both* writers write transactions over two partitions.
- *fresh* writers create partitions and append to them.
- *keeper* flushes and rolls.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import tidelog
from real_kafka.real_crashes.payload import values
from tidelog.api.directory import Directory
from tidelog.api.log import Log

TOPICS = ("plain", "short", "once", "both")
PARTITIONS = 2
MOST_FRESH = 12
"""The number of partitions of the topic ``fresh``, which writers create."""
BULK_RECORDS = 3000
PAUSES_PER_S = 1000
"""The rate of a writer's pauses, which let other writers run and limit the growth of the directory."""
_STDOUT = 1

Round = dict[str, Any]


def report(*words: object) -> None:
    """Write a report. A pipe takes up to 4 KiB at once, so lines of several threads never mix."""
    os.write(_STDOUT, json.dumps(words).encode() + b"\n")


class Writer:
    """A thread. ``next`` is the number of its next value."""

    longest_pause_s = 0.05

    def __init__(self, directory: Directory, name: str, known: dict[str, Any], seed: int) -> None:
        self.directory = directory
        self.name = name
        self.known = known
        self.next = known.get("next", 0)
        self.random = random.Random(f"{seed} {name}")
        self.topic = name.partition("-")[0]

    def log(self) -> Log:
        """Return the log of a random partition."""
        return self.directory.log(self.topic, self.random.randrange(PARTITIONS))

    def pause(self) -> None:
        time.sleep(self.random.random() * self.longest_pause_s)

    def append(self, log: Log, count: int, append: Callable[[Sequence[bytes]], Sequence[int]]) -> None:
        first = self.next
        partition = log.path.name
        report("try", self.name, partition, first, count)
        self.next += count
        offsets = append(values(self.name, range(first, first + count)))
        assert len(offsets) == count
        if isinstance(offsets, range):
            report("ack", self.name, partition, first, [offsets.start, offsets.stop])
        else:
            for at, offset in enumerate(offsets):
                report("ack", self.name, partition, first + at, [offset, offset + 1])


class PlainWriter(Writer):
    def begin(self) -> None:
        """Do nothing: the writer has no state of an earlier round."""

    def step(self) -> None:
        log, chance = self.log(), self.random.random()
        if chance < 0.6:
            self.append(log, 1, lambda data: range(offset := log.append(data[0]), offset + 1))
        else:
            self.append(log, BULK_RECORDS if chance > 0.99 else self.random.randint(1, 60), log.append_batch)


class OnceWriter(Writer):
    """An idempotent producer of the partition at the end of its name. Its values have its sequence numbers."""

    def begin(self) -> None:
        self.producer = self.directory.producer(self.known["producer_id"], epoch=0)
        self.target = self.directory.log(self.topic, int(self.name[-1]))
        repeated = self.known.get("repeat")
        if repeated is not None:
            first, count = repeated
            self.next = first
            self.send(count)
        assert self.producer.next_sequence(self.target) == self.next, "the log does not know the producer's sequence"

    def step(self) -> None:
        self.send(self.random.randint(1, 20))

    def send(self, count: int) -> None:
        sequence = self.next
        self.append(self.target, count, lambda data: self.producer.append_batch(self.target, data, sequence=sequence))


class BothWriter(Writer):
    def begin(self) -> None:
        self.producer = self.directory.producer(self.known["producer_id"])
        self.transactions = self.known.get("transactions", 0)

    def step(self) -> None:
        number, is_committed = self.transactions, self.random.random() < 0.7
        self.transactions += 1
        report("begin", self.name, number)
        with self.producer.transaction() as transaction:
            for _ in range(self.random.randint(1, 6)):
                log = self.log()
                self.append(log, self.random.randint(1, 12), partial(transaction.append_batch, log))
            if self.random.random() < 0.1:
                self.pause()
            report("ending", self.name, number, is_committed)
            if is_committed:
                transaction.commit()
            else:
                transaction.abort()
            report("ended", self.name, number, is_committed)


class FreshWriter(Writer):
    """A writer that may create a partition in its round, and appends to all that exist."""

    def begin(self) -> None:
        self.made = self.known.get("made", 0)
        self.waits = self.random.randrange(40)

    def step(self) -> None:
        if self.waits == 0 and self.made < MOST_FRESH:
            self.made += 1
        self.waits -= 1
        if self.made:
            log = self.directory.log(self.topic, self.random.randrange(self.made))
            self.append(log, self.random.randint(1, 3), log.append_batch)


class Keeper(Writer):
    def begin(self) -> None:
        """Do nothing: the keeper has no partitions of its own."""

    def step(self) -> None:
        self.pause()
        self.topic = self.random.choice(TOPICS)
        log = self.log()
        if self.random.random() < 0.7:
            end = log._engine().end_offset
            log.flush()
            report("flushed", log.path.name, end)
        else:
            log._engine().roll()


AnyWriter = PlainWriter | OnceWriter | BothWriter | FreshWriter | Keeper
KINDS: dict[str, type[AnyWriter]] = {
    "plain": PlainWriter,
    "short": PlainWriter,
    "once": OnceWriter,
    "both": BothWriter,
    "fresh": FreshWriter,
    "keeper": Keeper,
}


def work(writer: AnyWriter, closing: threading.Event) -> None:
    try:
        writer.begin()
        while not closing.is_set():
            writer.step()
            time.sleep(writer.random.expovariate(PAUSES_PER_S))
    except BaseException as error:
        # A clean shutdown does not wait for running appends.
        if not (closing.is_set() and isinstance(error, tidelog.TidelogError)):
            report("failed", f"{writer.name}: {traceback.format_exc()[-3000:]}")


def open_all(path: str, properties: str | None) -> Directory:
    """Open the logs, with housekeeping if a broker's ``properties`` are given."""
    if properties is None:
        directory = tidelog.open_directory(path)
    else:
        directory = tidelog.open_directory(path, housekeeping=True, server_properties=properties)
    for topic in TOPICS:
        for number in range(PARTITIONS):
            directory.log(topic, number)
    return directory


def make_writers(directory: Directory, round_: Round) -> list[AnyWriter]:
    return [
        KINDS[name.partition("-")[0]](directory, name, known, round_["seed"])
        for name, known in round_["writers"].items()
    ]


def run(round_: Round) -> None:
    directory = open_all(round_["directory"], round_["properties"])
    report("opened")
    closing = threading.Event()
    for writer in make_writers(directory, round_):
        threading.Thread(target=work, args=(writer, closing), daemon=True).start()
    time.sleep(round_["seconds"])
    closing.set()
    report("closing")
    directory.close()
    report("closed")


def fork(round_: Round) -> int:
    process = os.fork()
    if process:
        return process
    try:
        run(round_)
    except BaseException:
        report("failed", traceback.format_exc()[-3000:])
    os._exit(0)


def main() -> None:
    """Run a round for each line of stdin until the next line asks for its end. No process outlives stdin."""
    while line := os.read(0, 4096):
        process = fork(json.loads(line))
        report("begun")
        is_over = is_asked = False
        while not is_over:
            is_asked = bool(select.select([0], [], [], 0.01)[0])
            if is_asked:
                os.read(0, 4096)
                os.kill(process, signal.SIGKILL)  # the child is not reaped yet, so the id is still its own
            over, status = os.waitpid(process, 0 if is_asked else os.WNOHANG)
            is_over = over == process
        if not is_asked:
            os.read(0, 4096)
        report("over", status)


if __name__ == "__main__":
    main()
