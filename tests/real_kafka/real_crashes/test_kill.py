"""Writers are killed with SIGKILL under load, many times in one log directory. Then a real Kafka serves it.

Thirty rounds run here, three hundred in `make soak`. Each kill comes at a random moment: mostly during appends,
sometimes while the writer loads the files of the last kill, or during its clean shutdown. Then the log directory is
read as it is. The next step is random too: tidelog opens it and shuts down cleanly, `recover` runs, or the next writer
loads it at once. ``ledger`` has the rules that the log directory must satisfy.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidelog
from real_kafka.broker import Broker
from real_kafka.conftest import BrokerFactory
from real_kafka.real_crashes.ledger import Judge, Ledger
from real_kafka.real_crashes.nursery import Nursery
from real_kafka.real_crashes.scene import hurried_properties, known_writers, made_by_kafka, settle, verify_sound
from real_kafka.real_crashes.served import ISOLATIONS, read_by_kafka, read_by_tidelog
from tidelog.inspect.verify import Severity
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.storage.checkpoint import CleanShutdownFile
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.recovery.directory_recovery import recover_directory
from tidelog.storage.manager.recovery.recover_plan import RecoverOptions

pytestmark = pytest.mark.kafka

ROUNDS = 30


class Rounds:
    """A log directory, and the rounds on it."""

    def __init__(self, directory: Path, nursery: Nursery, seed: int) -> None:
        self.directory = directory
        self.nursery = nursery
        self.properties = hurried_properties(directory.parent)
        self.random = random.Random(seed)
        self.ledger = Ledger()
        self.judge = Judge(self.ledger)
        self.what_happened: Counter[str] = Counter()

    def run(self, number: int) -> None:
        """Run a writer until its end, and check the log directory."""
        seconds = self.random.uniform(0.05, 0.3)
        marker = CleanShutdownFile(LOCAL, self.directory)
        was_clean = marker.exists()
        housekeeping = self.random.random() < 0.5
        what, after, delay = self._moment(seconds)
        reports = self.nursery.run(
            {
                "directory": str(self.directory),
                "seed": number,
                "seconds": seconds,
                "properties": str(self.properties) if housekeeping else None,
                "writers": known_writers(self.ledger),
            },
            after=after,
            seconds=delay,
        )
        self.what_happened[what] += 1
        self.what_happened["with housekeeping"] += housekeeping
        self.what_happened["stopped in order before"] += any(report[0] == "closed" for report in reports)
        self.ledger.take(reports)
        with tidelog.open_directory(self.directory, read_only=True) as left:
            self.judge.look(left)
        if self.ledger.was_closed and was_clean:
            assert marker.exists()

    def go_on(self) -> None:
        """Take a random step before the next writer."""
        after = self.random.choice(("opened", "opened", "recovered", "left to the next writer"))
        self.what_happened[after] += 1
        if after == "opened":
            settle(self.directory, self.judge)
        elif after == "recovered":
            if self.random.random() < 0.5:
                verify_sound(self.directory, worst=Severity.WARNING)
            result = recover_directory(LOCAL, self.directory, RecoverOptions(now_ms=SYSTEM_CLOCK.now_ms()))
            assert not result.failures
            with tidelog.open_directory(self.directory, read_only=True) as recovered:
                self.judge.look(recovered)

    def _moment(self, seconds: float) -> tuple[str, str, float]:
        """Draw the moment of the kill: a name, the report that precedes it, and the delay after the report in seconds.

        The writer stops by itself ``seconds`` after it has opened the directory.
        """
        chance = self.random.random()
        if chance < 0.2:
            return "killed while it loads", "begun", self.random.uniform(0, 0.1)
        if chance < 0.4:
            return "killed while it stops", "closing", self.random.uniform(0, 0.2)
        return "killed under load", "opened", self.random.uniform(0, seconds)


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery(Path(__file__).with_name("writer.py")) as warm:
        yield warm


def kill_over_and_over(broker: Broker, nursery: Nursery, *, seed: int, kafka_every: int) -> Rounds:
    made_by_kafka(broker)
    rounds = Rounds(broker.directory, nursery, seed)
    for number in range(1, ROUNDS + 1):
        rounds.run(seed * 1000 + number)
        if number % kafka_every == 0:
            served_by_kafka(broker)
        if number < ROUNDS:
            rounds.go_on()
    settle(broker.directory, rounds.judge)
    with tidelog.open_directory(broker.directory, read_only=True) as opened:
        rounds.judge.read_again(opened)
    print(dict(rounds.what_happened), rounds.ledger.counts)
    return rounds


def served_by_kafka(broker: Broker) -> None:
    """Check that Kafka recovers the directory, and that its consumers read the same records as ours."""
    expected = {isolation: read_by_tidelog(broker.directory, isolation) for isolation in ISOLATIONS}
    broker.start()
    for isolation, records in expected.items():
        assert read_by_kafka(broker.bootstrap, records, isolation) == records
    broker.stop()


def test_nothing_acknowledged_is_lost(new_broker: BrokerFactory, nursery: Nursery) -> None:
    broker = new_broker()
    kill_over_and_over(broker, nursery, seed=0, kafka_every=ROUNDS)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(1, 11))
def test_nothing_acknowledged_is_lost_in_many_rounds(new_broker: BrokerFactory, nursery: Nursery, seed: int) -> None:
    """Kafka also recovers and serves the directory after every ten rounds."""
    broker = new_broker()
    kill_over_and_over(broker, nursery, seed=seed, kafka_every=10)
