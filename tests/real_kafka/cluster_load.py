"""A load for clusters that are mirrored: topics with an example of everything, written turn by turn.

=============  =======================================================================================================
topic          each turn
=============  =======================================================================================================
``plain`` …    records with and without keys, values and headers; a topic for each codec
``txn``        a transaction that commits or aborts; the first ones with offsets of ``readers-in-transactions``
``open``       a transaction that stays open after the load's end, once; then records behind it
``compacted``  records of few keys, some of them null; the cleaner runs all the time
``trimmed``    records; DeleteRecords in the middle of a batch
``rolling``    records; retention keeps a few segments
=============  =======================================================================================================

The group ``readers`` commits an offset of every topic each turn. All clients use the addresses of the constructor and
retry, so leaders may move meanwhile. A thread runs the turns until they are done, and longer until ``finish``.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from real_kafka.cluster import PATIENCE_S, Cluster

CODECS: Final = {"plain": "none", "gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"}
"""The codec of each topic with one of its own."""
TOPICS: Final = (*CODECS, "txn", "open", "compacted", "trimmed", "rolling")
GROUP: Final = "readers"
GROUP_IN_TRANSACTIONS: Final = "readers-in-transactions"
_OPEN_TRANSACTION_MS: Final = 7_200_000
_TRIMS_EVERY: Final = 5
_TURNS_WITH_OFFSETS: Final = 5
"""The first turns, whose transactions have offsets. After a broker's death librdkafka can need two minutes to send
offsets, whatever its timeout is. The transaction goes on then."""
_KEPT_SEGMENTS: Final = 3
_ATTEMPTS: Final = 12
_SHORT_WAIT_S: Final = 10
"""The timeout for an operation that another attempt or turn repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSize:
    """The amounts of a load. The defaults are those of a test that takes seconds."""

    turns: int = 20
    records: int = 40
    """The records of each topic in a turn."""
    batch_records: int = 10
    value_bytes: int = 80
    """The mean size of a value."""
    partitions: int = 2
    keys: int = 15
    """The keys of the compacted topic."""
    segment_bytes: int = 8192

    @property
    def config(self) -> Mapping[str, Mapping[str, str]]:
        """The settings of each topic, without the segment size."""
        return {
            **{topic: {"compression.type": codec} for topic, codec in CODECS.items() if codec != "none"},
            "plain": {"message.timestamp.type": "LogAppendTime", "retention.ms": "864000000"},
            "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "5000"},
            "rolling": {"retention.bytes": str(_KEPT_SEGMENTS * self.segment_bytes)},
        }


class Load:
    """The load of one cluster. Only its own thread uses the producers between ``start`` and ``finish``."""

    def __init__(self, cluster: Cluster, size: LoadSize | None = None, *, bootstrap: str | None = None) -> None:
        """Create the load without clients. ``bootstrap`` replaces the addresses that no fault of a link affects."""
        self.size = size or LoadSize()
        self.acknowledged: Counter[str] = Counter()
        """The records of each topic that the cluster has acknowledged."""
        self._cluster = cluster
        self._bootstrap = bootstrap or cluster.direct
        self._random = random.Random("load")
        self._producers: dict[str, Producer] = {}
        self._consumers: dict[str, Consumer] = {}
        self._over = threading.Event()
        self._done = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._turn = 0

    def create_topics(self, *, replicas: int = 2, assignment: Sequence[int] | None = None) -> None:
        """Create all topics. ``assignment`` lists the brokers of every partition, the leader first."""
        for topic in TOPICS:
            self._cluster.create_topic(
                topic,
                partitions=self.size.partitions,
                replicas=replicas,
                assignment=None if assignment is None else [assignment] * self.size.partitions,
                segment_bytes=self.size.segment_bytes,
                config=self.size.config.get(topic),
            )

    def start(self) -> None:
        """Begin the turns in a background thread."""
        self._thread.start()

    def wait(self) -> None:
        """Return when the turns are done. They go on until ``finish``."""
        while not self._done.wait(0.1):
            if not self._thread.is_alive():
                break
        self._check()

    def finish(self) -> None:
        """End the turns, and raise if one of them failed. A transaction of ``open`` stays open."""
        self._over.set()
        self._thread.join(2 * PATIENCE_S)
        self._check()
        assert not self._thread.is_alive(), f"turn {self._turn} of the load did not end"

    def run(self) -> None:
        """Do the turns once in this thread."""
        for _ in range(self.size.turns):
            self._do_turn()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self.run()
            self._done.set()
            while not self._over.is_set():
                self._do_turn()
        except BaseException as failure:
            self._failure = failure

    def _do_turn(self) -> None:
        turn, self._turn = self._turn, self._turn + 1
        for topic, codec in CODECS.items():
            self._produce(self._producer(codec), topic, turn)
        for topic in ("trimmed", "rolling", "compacted"):
            self._produce(self._producer("none"), topic, turn)
        for name in ("none", *CODECS.values()):
            self._flush(self._producer(name))
        self._transact(turn)
        self._leave_open(turn)
        if turn % _TRIMS_EVERY == _TRIMS_EVERY - 1:
            self.trim()
        self._commit(turn)

    def _produce(self, producer: Producer, topic: str, turn: int) -> None:
        draw = self._random
        for number in range(self.size.records):
            is_compacted = topic == "compacted"
            key = None if not is_compacted and draw.random() < 0.1 else b"key-%d" % draw.randrange(self.size.keys)
            text = b"%s %d %d " % (topic.encode(), turn, number)
            value = None if draw.random() < 0.05 else text + draw.randbytes(self.size.value_bytes // 2).hex().encode()
            producer.produce(
                topic,
                value,
                key,
                partition=number % self.size.partitions,
                headers=[("turn", b"%d" % turn), ("empty", None)] if draw.random() < 0.1 else None,
                on_delivery=self._count,
            )
            if number % (self.size.batch_records * self.size.partitions) == 0:
                producer.poll(0)

    def _transact(self, turn: int) -> None:
        """Commit or abort a transaction. After a failure another producer of the same id does it."""
        for _ in range(_ATTEMPTS):
            try:
                producer = self._producer("txn")
                producer.begin_transaction()
                self._produce(producer, "txn", turn)
                self._flush(producer)
                if turn < _TURNS_WITH_OFFSETS:
                    places = [KafkaPartition("txn", number, turn) for number in range(self.size.partitions)]
                    metadata = self._group(GROUP_IN_TRANSACTIONS).consumer_group_metadata()
                    producer.send_offsets_to_transaction(places, metadata, _SHORT_WAIT_S)
                if turn % 3 == 1:
                    producer.abort_transaction(_SHORT_WAIT_S)
                else:
                    producer.commit_transaction(_SHORT_WAIT_S)
            except KafkaException:
                self._producers.pop("txn", None)
            else:
                return
        raise AssertionError(f"transaction {turn} failed {_ATTEMPTS} times")

    def _leave_open(self, turn: int) -> None:
        """Begin the transaction that stays open in the middle of the turns. Later records are not stable."""
        if turn == self.size.turns // 2:
            producer = self._producer("open")
            producer.begin_transaction()
            producer.produce("open", b"left open", partition=0, on_delivery=self._count)
            self._flush(producer)
        self._produce(self._producer("none"), "open", turn)
        self._flush(self._producer("none"))

    def trim(self) -> bool:
        """Move the log start of each partition near its end, in the middle of a batch. Return True if all succeeded."""
        is_done = True
        for number in range(self.size.partitions):
            place = KafkaPartition("trimmed", number)
            try:
                _, end = self._group(GROUP).get_watermark_offsets(place, _SHORT_WAIT_S)
                target = KafkaPartition("trimmed", number, max(0, end - self.size.batch_records // 2))
                deletion = self._cluster.admin.delete_records(
                    [target], request_timeout=_SHORT_WAIT_S, operation_timeout=_SHORT_WAIT_S
                )
                deletion[target].result(PATIENCE_S)
            except KafkaException:
                is_done = False  # the leader is moving; the next turns try it again
        return is_done

    def _commit(self, turn: int) -> None:
        places = [
            KafkaPartition(topic, number, turn, metadata=f"turn {turn}")
            for topic in TOPICS
            for number in range(self.size.partitions)
        ]
        for _ in range(_ATTEMPTS):
            try:
                self._group(GROUP).commit(offsets=places, asynchronous=False)
            except KafkaException:
                continue  # the coordinator is moving
            else:
                return
        raise AssertionError(f"the commit of turn {turn} failed {_ATTEMPTS} times")

    def _producer(self, name: str) -> Producer:
        """Return the producer of a codec, or of a transactional id."""
        if name not in self._producers:
            settings: dict[str, str | int] = {
                "bootstrap.servers": self._bootstrap,
                "log_level": 2,
                "acks": "all",
                "linger.ms": 5,
                "batch.num.messages": self.size.batch_records,
                "message.timeout.ms": PATIENCE_S * 1000,
            }
            if name in CODECS.values():
                self._producers[name] = Producer({**settings, "compression.type": name})
            else:
                producer = Producer(
                    {**settings, "transactional.id": name, "transaction.timeout.ms": _OPEN_TRANSACTION_MS}
                )
                producer.init_transactions(_SHORT_WAIT_S if name == "txn" else PATIENCE_S)
                self._producers[name] = producer
        return self._producers[name]

    def _group(self, name: str) -> Consumer:
        """Return the consumer of a group. It commits and never joins."""
        if name not in self._consumers:
            settings = {"bootstrap.servers": self._bootstrap, "group.id": name, "log_level": 2}
            self._consumers[name] = Consumer(settings)
        return self._consumers[name]

    def _flush(self, producer: Producer) -> None:
        assert producer.flush(PATIENCE_S) == 0, "the cluster did not acknowledge the records"

    def _count(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged[message.topic() or ""] += 1
