"""``tidelog import``: a ZooKeeper-era directory gets a metadata log, and is served with its data."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from cli.runner import rows, run
from golden_sets import FORMATS, SCENARIOS, footprint, manifest
from power_cut import PowerCut
from served_records import PATIENCE_S, served_entries
from server.harness import KEEPING, running_broker
from tidelog.api import open_log
from tidelog.config.broker_config import BrokerConfig
from tidelog.model import StorageError
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.server.metadata.kraft.metadata_view import read_metadata
from tidelog.server.metadata.kraft.snapshot import read_snapshot
from tidelog.server.metadata.zookeeper_import.importer import Importer
from tidelog.server.metadata.zookeeper_import.survey import Survey, SurveyRequest, survey_directories
from tidelog.storage.checkpoint import META_PROPERTIES_FILE, PARTITION_METADATA_FILE, MetaProperties
from tidelog.storage.fs import LOCAL, FileSystem
from tidelog.storage.manager.metadata.cluster_metadata_log import SnapshotId

KEEPING_SETTINGS = {key.replace(".", "_"): value for key, value in KEEPING.items()}
GoldenCopy = Callable[[str, str], Path]


def test_a_plan_writes_nothing(golden_copy: GoldenCopy) -> None:
    directory = golden_copy(FORMATS, "clean")
    before = footprint(directory)
    found = rows("import", directory)
    assert footprint(directory) == before
    assert {row["topic"] for row in found} == {"__consumer_offsets"} | {
        name.rpartition("-")[0] for name in manifest(FORMATS)
    }
    assert all(row["topic_id"] for row in found)


def test_what_kafka_3_9_left_is_served_as_its_manifest_says(golden_copy: GoldenCopy) -> None:
    directory = golden_copy(FORMATS, "clean")
    ids = {row["topic"]: row["topic_id"] for row in rows("import", directory, "--apply")}
    before = {path: path.read_bytes() for path in directory.rglob("*.log") if "__" not in path.parent.name}
    entries = {name: levels["read_uncommitted"] for name, levels in manifest(FORMATS).items()}
    with running_broker(directory, node_id="7", **KEEPING_SETTINGS) as home:
        assert not home.call(lambda: home.broker.logs.strays)
        assert home.call(lambda: home.broker.metadata.image.cluster_id) == "rrn6YzCxTgup9sDBaFmenQ"
        assert served_entries(home.bootstrap, entries) == entries
        producer = Producer({"bootstrap.servers": home.bootstrap})
        producer.produce("v0-none", b"new")
        assert producer.flush(PATIENCE_S) == 0
    assert all(path.read_bytes().startswith(data) for path, data in before.items())
    assert {row["name"]: row["fields"]["topic_id"] for row in rows("metadata", directory, "-k", "topic")} == ids
    assert "so there is nothing to import" in run("import", directory, code=3).stderr


def test_settings_that_are_given_are_the_topics(golden_copy: GoldenCopy) -> None:
    directory = golden_copy(FORMATS, "clean")
    run("import", directory, "--topic-config", "v0-gzip:retention.ms=5", "--topic-config", "v0-lz4:a=b", code=2)
    run("import", directory, "--topic-config", "absent:retention.ms=5", "--apply", code=2)
    run("import", directory, "--topic-config", "v0-gzip:retention.ms=-2", "--apply", code=2)
    run("import", directory, "--topic-config", "v0-gzip:retention.ms=5", "--apply")
    configs = {
        (row["name"], row["fields"]["key"]): row["fields"]["value"]
        for row in rows("metadata", directory)
        if row["kind"] == "config"
    }
    assert configs["topic v0-gzip", "retention.ms"] == "5"
    assert configs["topic v0-lz4", "retention.ms"] == "-1"
    assert configs["topic __consumer_offsets", "cleanup.policy"] == "compact"


class TestSurvey:
    def test_producer_ids_epochs_and_compaction_are_found(self, golden_copy: GoldenCopy) -> None:
        directory = golden_copy(SCENARIOS, "unclean")
        view = read_metadata(LOCAL, directory)
        assert view is not None
        without_metadata(directory)
        survey = surveyed(directory)
        assert survey.node_id == 1
        assert survey.next_producer_id == view.image.next_producer_id == 1000
        topics = {topic.name: topic for topic in survey.topics}
        assert {topic.name: topic.id for topic in view.image.topics.values()} == {
            name: topic.topic_id for name, topic in topics.items()
        }
        assert topics["compacted"].settings["cleanup.policy"] == "compact"
        assert "cleanup.policy" not in topics["plain"].settings

    def test_the_next_producer_id_is_of_no_broker_yet(self, golden_copy: GoldenCopy) -> None:
        directory = golden_copy(SCENARIOS, "unclean")
        without_metadata(directory)
        run("import", directory, "--apply")
        first = SnapshotId(0, 0).file_name
        batches = read_snapshot(LOCAL, directory / "__cluster_metadata-0" / first)
        (found,) = [one for batch in batches for one in batch.records if one.name == "ProducerIdsRecord"]
        assert found.fields == {"brokerId": 1, "brokerEpoch": -1, "nextProducerId": 1000}

    def test_what_the_python_api_wrote(self, tmp_path: Path) -> None:
        with open_log(tmp_path / "data" / "orders-0") as log:
            log.append(b"v")
        assert (
            "no meta.properties has a node id: set it with --node-id" in run("import", tmp_path / "data", code=2).stderr
        )
        run("import", tmp_path / "data", "--node-id", "1", "--apply")
        with running_broker(tmp_path / "data", **KEEPING_SETTINGS) as home:
            assert [record.value for record in home.records("orders")] == [b"v"]

    @pytest.mark.parametrize(
        ("change", "words", "code"),
        [
            (lambda home: shutil.rmtree(home / "__consumer_offsets-0"), "partition 0 here, but 1", 3),
            (
                lambda home: shutil.copy(
                    home / "v0-none-0" / PARTITION_METADATA_FILE,
                    home / "__consumer_offsets-1" / PARTITION_METADATA_FILE,
                ),
                "different topic ids",
                3,
            ),
            (
                lambda home: (home / META_PROPERTIES_FILE).write_text("version=0\n"),
                "no meta.properties has a node id: set it with --node-id",
                2,
            ),
            (lambda home: (home / META_PROPERTIES_FILE).write_text("version=7\n"), "version 7 is unknown", 3),
        ],
    )
    def test_what_cannot_be_is_refused(
        self, golden_copy: GoldenCopy, change: Callable[[Path], object], words: str, code: int
    ) -> None:
        directory = golden_copy(FORMATS, "clean")
        change(directory)
        before = footprint(directory)
        assert words in run("import", directory, "--apply", code=code).stderr
        assert footprint(directory) == before

    def test_a_number_that_is_far_away_is_named_and_not_counted_up_to(self, golden_copy: GoldenCopy) -> None:
        directory = golden_copy(FORMATS, "clean")
        (directory / "far-2147483647").mkdir()
        message = run("import", directory, "--apply", code=3).stderr
        assert "far has no partition 0, 1, 2, 3, 4 and 2147483642 more here, but 2147483647" in message

    @pytest.mark.parametrize("arguments", [(), ("--apply",)])
    def test_files_of_others_are_not_removed(
        self, golden_copy: GoldenCopy, tmp_path: Path, arguments: tuple[str, ...]
    ) -> None:
        directory, home = golden_copy(FORMATS, "clean"), tmp_path / "home"
        home.mkdir()
        (home / "00000000000000000000.log").write_text("a thesis")
        metadata = directory / "__cluster_metadata-0"
        metadata.symlink_to(home)
        assert "it is a symbolic link" in run("import", directory, *arguments, code=3).stderr
        metadata.unlink()
        metadata.mkdir()
        (metadata / "thesis.txt").write_text("a thesis")
        assert "'thesis.txt' is not a file of a metadata log" in run("import", directory, *arguments, code=3).stderr
        (metadata / "thesis.txt").unlink()
        (metadata / "leader-epoch-checkpoint").symlink_to(home / "00000000000000000000.log")
        assert "'leader-epoch-checkpoint' is not a file of a" in run("import", directory, *arguments, code=3).stderr
        assert [path.read_text() for path in home.iterdir()] == ["a thesis"]

    def test_one_on_its_way_to_kraft_or_in_use_is_refused(self, golden_copy: GoldenCopy) -> None:
        directory = golden_copy(SCENARIOS, "clean")
        (directory / META_PROPERTIES_FILE).write_text("version=0\nbroker.id=1\n")
        assert "a migration from ZooKeeper to KRaft is unfinished" in run("import", directory, "--apply", code=3).stderr
        lock = LOCAL.lock(directory / ".lock")
        assert "has locked the directory" in run("import", directory, "--apply", code=3).stderr
        lock.release()

    def test_directories_of_one_broker_belong_together(self, golden_copy: GoldenCopy, tmp_path: Path) -> None:
        directory, other = golden_copy(FORMATS, "clean"), tmp_path / "other"
        shutil.copytree(directory / "v0-none-0", other / "v0-none-0")
        assert "v0-none-0 is also in" in run("import", directory, other, code=3).stderr
        shutil.rmtree(directory / "v0-none-0")
        (other / META_PROPERTIES_FILE).write_text("version=0\nbroker.id=8\n")
        assert "the directories belong to different brokers: 7 in" in run("import", directory, other, code=2).stderr
        (other / META_PROPERTIES_FILE).unlink()
        run("import", directory, other, "--apply")
        states = {row["name"]: row["fields"] for row in rows("metadata", directory, "-k", "partition")}
        there, here = (MetaProperties.read(LOCAL, path / META_PROPERTIES_FILE) for path in (other, directory))
        assert there is not None
        assert here is not None
        assert there.cluster_id == here.cluster_id
        assert states["v0-none-0"]["directories"] != states["v0-gzip-0"]["directories"]
        with running_broker(directory, log_dirs=f"{directory},{other}", node_id="7", **KEEPING_SETTINGS) as home:
            entry = manifest(FORMATS)["v0-none-0"]["read_uncommitted"]
            assert served_entries(home.bootstrap, ["v0-none-0"]) == {"v0-none-0": entry}


@pytest.mark.parametrize("every", [17, pytest.param(1, marks=pytest.mark.slow)])
def test_a_crash_leaves_what_was_there_or_what_goes_on(golden_copy: GoldenCopy, tmp_path: Path, every: int) -> None:
    """Power fails at every ``every``-th change of the disk."""
    whole = golden_copy(FORMATS, "clean")
    for name in ("v0-lz4-0", "v1-none-0"):
        (whole / name / PARTITION_METADATA_FILE).unlink()
    (whole.parent / "other").mkdir()
    (whole / "v0-gzip-0").rename(whole.parent / "other" / "v0-gzip-0")
    steps, is_whole = 0, False
    while not is_whole:
        home = tmp_path / str(steps)
        shutil.copytree(whole, home / "data")
        shutil.copytree(whole.parent / "other", home / "other")
        try:
            imported(home, PowerCut(steps))
            is_whole = True
        except StorageError:
            pass
        check_what_is_left(home)
        shutil.rmtree(home)
        steps += every
    assert steps > 30


def check_what_is_left(home: Path) -> None:
    """Check that a broker starts on the directory. If the import did not change it, repeat the import first."""
    directories = home / "data", home / "other"
    properties = MetaProperties.read(LOCAL, home / "data" / META_PROPERTIES_FILE)
    assert properties is not None
    if properties.version == 0:
        imported(home, LOCAL)
    settings = {"log_dirs": ",".join(map(str, directories)), "node_id": "7", **KEEPING_SETTINGS}
    with running_broker(home / "data", **settings) as broker:
        assert not broker.call(lambda: broker.broker.logs.strays)
        states = broker.call(lambda: list(broker.broker.metadata.image.partitions()))
    found = {f"{topic.name}-{number}": state.leader for topic, number, state in states}
    there = [path.name for one in directories for path in one.glob("*-[0-9]") if path.name != "__cluster_metadata-0"]
    assert found == dict.fromkeys(there, 7)


def imported(home: Path, fs: FileSystem) -> Survey:
    config = BrokerConfig.load(overrides={"log.dirs": f"{home / 'data'},{home / 'other'}"})
    survey = surveyed(home / "data", home / "other")
    return Importer(fs=fs, config=config, clock=SYSTEM_CLOCK).run(survey)


def surveyed(*directories: Path) -> Survey:
    request = SurveyRequest(
        directories=directories,
        metadata_directory=directories[0],
        node_id=None,
        topic_settings={},
        internal_settings={},
    )
    return survey_directories(LOCAL, request)


def without_metadata(directory: Path) -> None:
    """Make the directory look like that of a broker with ZooKeeper."""
    shutil.rmtree(directory / "__cluster_metadata-0")
    (directory / META_PROPERTIES_FILE).write_text("version=0\nbroker.id=1\ncluster.id=PPHkimXOT_2-xjXVnSwxdg\n")
