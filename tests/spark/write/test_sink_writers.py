"""The writers that Spark receives: their class, the parts that travel to the tasks, and early errors."""

from __future__ import annotations

from pathlib import Path

import pyspark.sql.datasource
import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSourceArrowWriter

from spark.write.sinks import query_of
from tidelog.model import ConfigError, LockedError, TidelogError
from tidelog.runtime.clock import SYSTEM_CLOCK
from tidelog.spark.source import TidelogDataSource
from tidelog.spark.write.batch_writer import LogWriter
from tidelog.spark.write.stream_writer import LogStreamWriter
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.writable.writable_directory import WritableDirectory

QUERY = query_of(["key", "value"])


def source_of(log_dir: Path, **given: str) -> TidelogDataSource:
    return TidelogDataSource({"logDirs": str(log_dir), "topic": "t"} | given)


def test_a_batch_writer_travels_with_its_query(tmp_path: Path) -> None:
    source = source_of(tmp_path)
    writer, other = source.writer(QUERY, False), source.writer(QUERY, False)
    assert isinstance(writer, LogWriter)
    assert isinstance(other, LogWriter)
    assert isinstance(writer, DataSourceArrowWriter)
    assert writer.query != other.query
    there = cloudpickle.loads(cloudpickle.dumps(writer))
    assert vars(there) == vars(writer)


def test_a_stream_writer_takes_what_this_pyspark_gives(tmp_path: Path) -> None:
    writer = source_of(tmp_path).streamWriter(QUERY, False)
    assert isinstance(writer, LogStreamWriter)
    arrow = getattr(pyspark.sql.datasource, "DataSourceStreamArrowWriter", None)
    assert (arrow is None) == (type(writer) is LogStreamWriter)
    assert arrow is None or isinstance(writer, arrow)
    there = cloudpickle.loads(cloudpickle.dumps(writer))
    assert type(there) is type(writer)
    assert vars(there) == vars(writer)


@pytest.mark.parametrize("method", ["writer", "streamWriter"])
def test_what_is_refused_at_once(tmp_path: Path, method: str) -> None:
    def said(kind: type[TidelogError], overwrite: bool, **given: str) -> str:
        with pytest.raises(kind) as raised:
            getattr(source_of(tmp_path / "logs", **given), method)(QUERY, overwrite)
        return str(raised.value)

    assert "append, not overwrite or complete" in said(ConfigError, True)
    assert "'topic' is not a legal name" in said(ConfigError, False, topic="no topic")
    assert not (tmp_path / "logs").exists()
    directory = WritableDirectory(LOCAL, tmp_path / "logs", clock=SYSTEM_CLOCK)
    assert "waited 1 ms for it" in said(LockedError, False, lockTimeout="1ms")
    directory.close()
