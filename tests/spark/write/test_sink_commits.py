"""Commits of the sinks: each batch once, no files of failed attempts, one owner of the directory at a time."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from spark.write.sinks import Sink, records
from tidelog import open_directory
from tidelog.model import FileMissingError, LockedError
from tidelog.runtime.clock import SYSTEM_CLOCK
from tidelog.spark.write.commit import Commits
from tidelog.storage.fs import LOCAL
from tidelog.storage.fs.local import LocalFileSystem
from tidelog.storage.manager.staged.sink_checkpoint import read_committed_batches
from tidelog.storage.manager.staged.staged_commit import INTENT_FILE, StagedCommit, write_intent


def test_a_repeated_batch_is_written_once(tmp_path: Path) -> None:
    sink = Sink(tmp_path)
    for batch in (0, 0, 1, 1, 0):
        sink.write(records(10, first=10 * batch), batch=batch)
    assert sink.values() == {0: [row["value"] for row in records(20)]}
    assert sink.staged == []


def test_a_batch_without_rows_is_a_batch(tmp_path: Path) -> None:
    sink = Sink(tmp_path)
    sink.write([], [], batch=3)
    assert read_committed_batches(LOCAL, tmp_path) == {"q": 3}


def test_a_commit_removes_what_failed_attempts_have_left(tmp_path: Path) -> None:
    sink, other = Sink(tmp_path), Sink(tmp_path, query="other")
    sink.stage(records(5), batch=0)
    sink.stage(records(5), batch=1)
    other.stage(records(5), batch=0)
    sink.write(records(10), batch=1)
    assert sink.values() == {0: [row["value"] for row in records(10)]}
    assert len(sink.staged) == 1
    other.write([], batch=0)
    assert sink.staged == []


class TestAborts:
    def test_what_was_reported_is_removed(self, tmp_path: Path) -> None:
        sink = Sink(tmp_path, numPartitions=2)
        reports = sink.stage(records(100), records(100))
        left = sink.stage(records(100))
        sink.commits.abort(reports)
        assert sink.staged == sorted(file.name for files in left[0].files.values() for file in files)

    def test_of_a_query_that_comes_once_all_is(self, tmp_path: Path) -> None:
        sink, other = Sink(tmp_path, query="once"), Sink(tmp_path)
        sink.stage(records(5), batch=None)
        other.stage(records(5))
        sink.commits.abort([], "once")
        assert len(sink.staged) == 1

    def test_what_was_decided_stays_and_is_carried_out(self, tmp_path: Path) -> None:
        sink = Sink(tmp_path)
        (report,) = sink.stage(records(5))
        write_intent(LOCAL, tmp_path, StagedCommit(query="q", batch=0, files=report.files))
        sink.commits.abort([report], "q")
        with open_directory(tmp_path):
            pass
        assert sink.values() == {0: [row["value"] for row in records(5)]}
        sink.write(records(5))
        assert sink.values() == {0: [row["value"] for row in records(5)]}

    def test_a_commit_that_is_at_it_still_keeps_its_files(self, tmp_path: Path) -> None:
        """Spark aborts a commit whose process does not respond, although the process may be alive."""
        sink = Sink(tmp_path, lockTimeout="20ms")
        reports = sink.stage(records(5))

        class AbortedBeforeTheDecision(LocalFileSystem):
            def rename(self, source: Path, target: Path) -> None:
                if target.name == INTENT_FILE:
                    with pytest.raises(LockedError):
                        sink.commits.abort(reports, "q")
                super().rename(source, target)

        Commits(AbortedBeforeTheDecision(), sink.options, clock=SYSTEM_CLOCK).commit("q", 0, reports)
        assert sink.values() == {0: [row["value"] for row in records(5)]}

    def test_it_can_be_repeated(self, tmp_path: Path) -> None:
        sink = Sink(tmp_path)
        reports = sink.stage(records(5))
        sink.commits.abort(reports)
        with pytest.raises(FileMissingError):
            sink.commits.commit("q", 0, reports)
        sink.write(records(5))
        assert sink.values() == {0: [row["value"] for row in records(5)]}


class TestDirectoryOfAnother:
    def test_is_an_error_before_and_at_the_commit(self, tmp_path: Path) -> None:
        sink = Sink(tmp_path, lockTimeout="20ms")
        reports = sink.stage(records(5))
        with open_directory(tmp_path):
            with pytest.raises(LockedError, match=r"waited 20 ms for it \(option 'lockTimeout'\)"):
                sink.commits.prepare()
            with pytest.raises(LockedError, match="waited 20 ms for it"):
                sink.commits.commit("q", 0, reports)
        sink.commits.commit("q", 0, reports)
        assert sink.values() == {0: [row["value"] for row in records(5)]}

    def test_two_queries_wait_for_each_other(self, tmp_path: Path) -> None:
        sinks = [Sink(tmp_path, query=f"q{number}", lockTimeout="100s") for number in range(2)]

        def write(sink: Sink) -> None:
            for batch in range(5):
                sink.write(records(20), batch=batch)

        threads = [threading.Thread(target=write, args=(sink,)) for sink in sinks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(sinks[0].values()[0]) == 200
        assert read_committed_batches(LOCAL, tmp_path) == {"q0": 4, "q1": 4}
        assert sinks[0].staged == []
