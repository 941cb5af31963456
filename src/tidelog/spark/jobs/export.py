"""The export of records into Parquet, or any format the session writes, by topic and date.

The columns are ``topic`` and ``date`` (the UTC date of the record's timestamp), which partition the files. Then come
the columns of ``format("tidelog")``. If undecodable rows are kept, ``keyRaw`` and ``valueRaw`` follow.

=============================  =======================================================================================
a key or value                 in the export
=============================  =======================================================================================
decodable (``decoding``)       its decoded value; ``keyRaw`` or ``valueRaw`` is null
undecodable, with ``fail``     the job ends with an error that names partition and offset, and nothing is written
undecodable, with ``keep``     null, with its bytes in ``keyRaw`` or ``valueRaw``; it is counted
=============================  =======================================================================================

The offsets to read are fixed at the start, for each partition. Under a live broker they end at the high watermark. The
export is one write, so it is atomic if the format is. Nothing is written into the log directories. They must be visible
under the same path to the driver and to every executor.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.model import ConfigError, TopicPartition
from tidelog.spark.jobs.decoding import AS_IT_IS, Decoding, Encoding
from tidelog.spark.jobs.export_errors import translated_errors
from tidelog.spark.jobs.progress import OnProgress, stage_progress
from tidelog.spark.jobs.work import require_directories
from tidelog.spark.read.options import ReadOptions, SubscriptionKind
from tidelog.spark.read.planner import plan
from tidelog.spark.read.pruning import Pruning
from tidelog.spark.read.table_columns import Mode
from tidelog.spark.stream.stream_offsets import Offsets, to_json

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession

SCHEMA = (
    "topic string, partitions int, startOffsets string, endOffsets string, records bigint, undecodableKeys bigint,"
    " undecodableValues bigint"
)
"""The result has one row per topic. Offsets of partitions with records are JSON like ``startingOffsets``."""
_REFUSES = "errorifexists"
DAY_MICROSECONDS = 24 * 60 * 60 * 1_000_000
SIDES = ("key", "value")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """The target is either ``path`` or ``table``. Giving both or neither raises ConfigError."""

    path: str | None = None
    table: str | None = None
    """A name in a catalog of the session, such as Iceberg's or Delta's."""
    format: str = "parquet"
    mode: str = _REFUSES
    """The mode of Spark's writers: errorifexists, append, overwrite."""
    read: Mapping[str, str] = field(default_factory=dict)
    """Options of ``format("tidelog")``, except ``logDirs``, ``mode`` and ``columns``."""
    write: Mapping[str, str] = field(default_factory=dict)
    """Options of the writer."""
    key: Decoding = AS_IT_IS
    value: Decoding = AS_IT_IS
    keeps_undecodable: bool = False

    def __post_init__(self) -> None:
        if (self.path is None) == (self.table is None):
            raise ConfigError("an export goes to a path or into a table: give one of the two")

    @property
    def decodings(self) -> Mapping[str, Decoding]:
        """The decodings by column."""
        return dict(zip(SIDES, (self.key, self.value), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class _TopicRead:
    """The offsets to read of a topic."""

    topic: str
    starts: Offsets
    ends: Offsets
    log_bytes: int


def export(
    spark: SparkSession,
    directories: str | Path | Iterable[str | Path],
    options: ExportOptions,
    *,
    topics: Collection[str] | None = None,
    on_progress: OnProgress | None = None,
) -> DataFrame:
    """Write the export and return one row per topic. ``topics`` None follows ``options.read``, else all but internal
    topics.

    Raise DirectoryError for a path that is no log directory, and the errors of the source. Raise ConfigError for
    invalid options and for a format that the session lacks. Raise InvalidRecordError for an undecodable key or value.
    """
    from pyspark.sql import DataFrame as Table

    given = _read_options(require_directories(directories), options, topics)
    reads = _planned(given)
    tables, counts = [], []
    with translated_errors(options.format):
        for read in reads:
            table, counted = _observed(_topic_table(spark, read, given, options), options)
            tables.append(table)
            counts.append(counted)
        if tables:
            with stage_progress(spark, sum(read.log_bytes for read in reads), on_progress):
                _write(reduce(Table.unionByName, tables), options)
    rows = [_row(read, counted.get) for read, counted in zip(reads, counts, strict=True)]
    return spark.createDataFrame(rows, SCHEMA)


def _read_options(paths: Sequence[Path], options: ExportOptions, topics: Collection[str] | None) -> dict[str, str]:
    """Return the options for a read of everything that is exported."""
    given = {name.lower(): text for name, text in options.read.items()}
    asked = [kind for kind in SubscriptionKind if kind.lower() in given]
    if topics is not None:
        if asked:
            raise ConfigError(f"topics are named twice: by name, and by the option {asked[0]}")
        given |= {"subscribe": ",".join(topics)}
    elif not asked:
        given |= {"subscribepattern": ".*"}
    given = {"includeheaders": "true"} | given | {"logdirs": ",".join(str(path) for path in paths)}
    parsed = ReadOptions.parse(given)
    if parsed.mode is not Mode.RECORDS or parsed.columns is not None:
        raise ConfigError("an export writes complete records: the options mode and columns are not allowed")
    return given


def _planned(given: Mapping[str, str]) -> list[_TopicRead]:
    """Return the reads by topic. Topics without a record to read are left out."""
    starts: dict[TopicPartition, int] = {}
    ends: dict[TopicPartition, int] = {}
    sizes: dict[str, int] = {}
    for split in plan(ReadOptions.parse(given), Pruning()):
        for piece in split.pieces:
            starts[piece.partition] = min(piece.start, starts.get(piece.partition, piece.start))
            ends[piece.partition] = max(piece.end, ends.get(piece.partition, piece.end))
            sizes[piece.partition.topic] = sizes.get(piece.partition.topic, 0) + piece.size_bytes
    return [
        _TopicRead(topic=topic, starts=_of(topic, starts), ends=_of(topic, ends), log_bytes=size)
        for topic, size in sorted(sizes.items())
    ]


def _of(topic: str, offsets: Offsets) -> Offsets:
    return {partition: offset for partition, offset in offsets.items() if partition.topic == topic}


def _topic_table(spark: SparkSession, read: _TopicRead, given: Mapping[str, str], options: ExportOptions) -> DataFrame:
    """Return a topic's records, with the bytes that could not be decoded in ``keyRaw`` and ``valueRaw``."""
    others = {name: text for name, text in given.items() if not name.startswith(("starting", "ending"))}
    for kind in SubscriptionKind:
        others.pop(kind.lower(), None)
    assigned = json.dumps({read.topic: sorted(partition.partition for partition in read.starts)})
    bounds = {"startingoffsets": json.dumps(to_json(read.starts)), "endingoffsets": json.dumps(to_json(read.ends))}
    table = spark.read.format("tidelog").options(**others, **bounds, assign=assigned).load()
    names = [name for name in table.columns if name != "topic"]
    for side, decoding in options.decodings.items():
        table = _with_decoded(table, side, decoding, keeps_undecodable=options.keeps_undecodable)
    return table.select("topic", _date().alias("date"), *names, *map(_raw, SIDES))


def _with_decoded(table: DataFrame, side: str, decoding: Decoding, *, keeps_undecodable: bool) -> DataFrame:
    from pyspark.sql import functions as f

    given, raw = f.col(side), f.col(_raw(side))
    if decoding.encoding is Encoding.BINARY:
        return table.withColumn(_raw(side), f.lit(None).cast("binary"))
    table = table.withColumn(_raw(side), given).withColumn(side, decoding.decoded(given))
    is_undecodable = given.isNull() & raw.isNotNull()
    if not keeps_undecodable:
        table = table.withColumn(side, f.when(is_undecodable, _refusal(side, decoding)).otherwise(given))
    return table.withColumn(_raw(side), f.when(is_undecodable, raw))


def _raw(side: str) -> str:
    return f"{side}Raw"


def _date() -> Column:
    """Return the date in UTC, whatever the session's time zone. Times before 1970 are rounded down to their day too."""
    from pyspark.sql import functions as f

    microseconds = f.unix_micros("timestamp")
    days = (microseconds - f.pmod(microseconds, f.lit(DAY_MICROSECONDS))) / f.lit(DAY_MICROSECONDS)
    return f.date_from_unix_date(days.cast("int"))


def _refusal(side: str, decoding: Decoding) -> Column:
    from pyspark.sql import functions as f

    sentence = f"%s-%d: the {side} of the record at offset %d cannot be decoded as {decoding.encoding}"
    return f.raise_error(f.format_string(sentence, "topic", "partition", "offset"))


def _observed(table: DataFrame, options: ExportOptions) -> tuple[DataFrame, Observation]:
    """Return the table to write, and an observation that counts its rows. A row that reports damage is not a record."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    observation = Observation()
    is_record = f.col("corrupt").isNull() if "corrupt" in table.columns else f.lit(True)
    counted = table.observe(
        observation,
        f.count_if(is_record).alias("records"),
        *(f.count(_raw(side)).alias(_raw(side)) for side in SIDES),
    )
    undecoded = [side for side, of in options.decodings.items() if of.encoding is Encoding.BINARY]
    dropped = undecoded if options.keeps_undecodable else SIDES
    return counted.drop(*map(_raw, dropped)), observation


def _write(table: DataFrame, options: ExportOptions) -> None:
    mode = "error" if options.mode.lower() == _REFUSES else options.mode  # the word that Spark Connect knows too
    writer = table.write.format(options.format).mode(mode).options(**options.write)
    writer = writer.partitionBy("topic", "date")
    if options.table is not None:
        writer.saveAsTable(options.table)
    else:
        writer.save(options.path)


def _row(read: _TopicRead, counted: Mapping[str, Any]) -> tuple[Any, ...]:
    offsets = (json.dumps(to_json(read.starts)), json.dumps(to_json(read.ends)))
    return (read.topic, len(read.starts), *offsets, counted["records"], *(counted[_raw(side)] for side in SIDES))
