"""Spark's own Kafka source and tidelog read the same records: from a real broker, and from its log directory.

The tests compare complete rows, schemas, and the order in each partition. If one source fails, the other fails for the
same cause. Intended differences have a row in docs/spark.md's table. The tests are not marked ``spark``, because that
would run them in each environment, and they concern one release.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from real_kafka.broker import Broker
from spark.differential.both_sources import SOURCES, BothSources, Outcome, Source, ends
from spark.differential.mixes import MIXES, Cause, Mix
from spark.differential.more_mixes import MORE_MIXES
from spark.differential.scene import PROPERTIES, Scene
from spark.differential.stream_mixes import MORE_STREAM_MIXES, SHARED_OUT, STREAM_MIXES, Between, StreamMix, gives
from spark.differential.streams import Streams

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(2400)]

DOCS = Path(__file__).resolve().parents[3] / "docs" / "spark.md"
ALL_MIXES = {**MIXES, **MORE_MIXES}
ALL_STREAM_MIXES = {**STREAM_MIXES, **MORE_STREAM_MIXES}
ERRORS = {
    Cause.OPTION: "ConfigError",
    Cause.MISSING: "UnknownTopicOrPartitionError",
    Cause.LOSS: "OffsetOutOfRangeError",
    Cause.TOO_LATE: "OffsetOutOfRangeError",
}
"""The Python reader's exceptions by cause. The JVM reader has their sentences."""


def quick_and_slow(quick: Iterable[str], slow: Iterable[str]) -> list[Any]:
    return [*quick, *(pytest.param(name, marks=pytest.mark.slow) for name in slow)]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    root = tmp_path_factory.mktemp("kafka")
    with Broker(root / "data", work=root / "work", properties=PROPERTIES) as broker:
        broker.format()
        broker.start()
        scene = Scene(broker)
        scene.fill()
        yield scene


@pytest.fixture(scope="module")
def session(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothSources]:
    with BothSources(scene.broker, tmp_path_factory.mktemp("spark")) as running:
        yield running


@pytest.fixture(params=["jvm", "python"])
def both(session: BothSources, request: pytest.FixtureRequest) -> BothSources:
    """Return the session, in which tidelog reads by the JVM reader, and then by Python's."""
    session.reader = request.param
    return session


@pytest.mark.parametrize("name", quick_and_slow(MIXES, MORE_MIXES))
def test_a_batch_read(both: BothSources, name: str) -> None:
    mix = ALL_MIXES[name]
    found = {source: both.read(source, mix.options) for source in SOURCES}
    check_words(mix, found, both)
    if mix.differs:
        assert found["kafka"] != found["tidelog"]
    elif mix.cause is None:
        assert found["kafka"] == found["tidelog"]


def check_words(mix: Mix | StreamMix, found: dict[Source, Outcome], both: BothSources) -> None:
    """Check that each source fails with the words that the mix has for it, or not at all."""
    every: tuple[tuple[Source, str], ...] = (("kafka", mix.kafka), ("tidelog", mix.tidelog))
    for source, wanted in every:
        words = found[source].words
        assert bool(words) == bool(wanted), f"{source}: {words}"
        assert re.search(wanted, words), words
    if mix.cause is not None and both.reader == "python":
        assert f"tidelog.model.errors.{ERRORS[mix.cause]}: " in found["tidelog"].words


def test_what_differs_is_in_the_docs() -> None:
    table = DOCS.read_text().split("## What differs from Spark's Kafka source")[1].split("\n## ")[0]
    rows = {line.split("|")[1].strip() for line in table.splitlines() if line.startswith("|")}
    mixes: list[Mix | StreamMix] = [*ALL_MIXES.values(), *ALL_STREAM_MIXES.values()]
    assert {mix.differs for mix in mixes if mix.differs} <= rows


@pytest.mark.parametrize("name", quick_and_slow(STREAM_MIXES, MORE_STREAM_MIXES))
def test_a_stream(scene: Scene, both: BothSources, tmp_path: Path, name: str) -> None:
    """Both sources give the same batches, checkpoints and rows, whatever changes between two runs."""
    mix = ALL_STREAM_MIXES[name]
    streams = Streams(scene, both, mix, tmp_path)
    found = {source: streams.run(source) for source in SOURCES}
    if mix.between is not Between.NOTHING:
        assert found["kafka"] == found["tidelog"]
        assert not found["kafka"].words
        streams.change()
        found = {source: streams.run(source) for source in SOURCES}
    check_words(mix, found, both)
    if mix.cause is None and not mix.differs:
        assert found["kafka"] == found["tidelog"]
        assert found["kafka"].rows
        assert ends(streams.checkpoint("kafka")) == ends(streams.checkpoint("tidelog"))


def test_either_goes_on_from_the_others_checkpoint(scene: Scene, both: BothSources, tmp_path: Path) -> None:
    streams = Streams(scene, both, SHARED_OUT, tmp_path)
    before = [streams.run(source) for source in SOURCES]
    streams.change()
    after = [streams.run("tidelog", query="kafka"), streams.run("kafka", query="tidelog")]
    assert before[0] == before[1]
    assert after[0] == after[1]
    assert before[0].rows.keys() == {"0", "1", "2"}
    assert after[0].rows.keys() == {"3"}
    assert ends(streams.checkpoint("kafka")) == ends(streams.checkpoint("tidelog"))


@pytest.mark.slow
def test_all_there_is_within_limits(scene: Scene, both: BothSources, tmp_path: Path) -> None:
    """PySpark 4.0 asks a Python source for one batch a run, so several runs give the batches of Spark's own source. The
    JVM reader needs one run."""
    mix = gives(startingOffsets="earliest", maxOffsetsPerTrigger="30", available_now=True)
    streams = Streams(scene, both, mix, tmp_path)
    wanted = streams.run("kafka").rows
    runs = [streams.run("tidelog").rows for _ in (wanted if both.reader == "python" else [wanted])]
    batches = [[number] for number in wanted] if both.reader == "python" else [[*wanted]]
    assert [list(run) for run in runs] == batches
    assert {number: rows for run in runs for number, rows in run.items()} == wanted
    assert ends(streams.checkpoint("kafka")) == ends(streams.checkpoint("tidelog"))
