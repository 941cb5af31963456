"""A table of records as a restore takes it: its columns, and its facts about each partition.

===================================  =================================================================================
column                               type
===================================  =================================================================================
``topic``                            required; a string
``partition``, ``offset``            required; integers
``timestamp``                        required; a timestamp, or milliseconds as an integer
``value``                            required; binary or string
``key``                              binary or string; without it keys are null
``headers``                          array<struct<key:string,value:binary>>; without it there are none
``timestampType``                    0 or 1; without it 0
any other                            ignored
===================================  =================================================================================

The restore job reads the table on the driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.model import ConfigError, TopicPartition
from tidelog.model.topic_partition import is_legal_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REQUIRED = ("topic", "partition", "offset", "timestamp", "value")
HEADERS = "array<struct<key:string,value:binary>>"
_WHOLE = ("bigint", "int", "smallint", "tinyint")
_BYTES = ("binary", "string")
_TYPES = {
    "topic": ("string",),
    "partition": _WHOLE,
    "offset": _WHOLE,
    "timestamp": ("timestamp", "timestamp_ntz", "bigint"),
    "timestampType": _WHOLE,
    "key": _BYTES,
    "value": _BYTES,
    "headers": (HEADERS,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePartition:
    """A table's facts about a partition. Offsets are None if all are null. ``size`` is that of keys and values in
    bytes."""

    topic: str | None
    partition: int | None
    records: int
    first_offset: int | None
    last_offset: int | None
    size: int
    without_offset: int
    without_timestamp: int
    repeated: int
    """The records whose offset another record has too."""

    @property
    def refusal(self) -> str | None:
        """The reason why no log can be made of the partition, or None if it can."""
        if self.topic is None or self.partition is None:
            return f"rows without a topic or a partition: {self.records}"
        if not is_legal_topic(self.topic) or self.partition < 0:
            return f"{self.topic}-{self.partition} is not a partition"
        if self.without_offset or self.first_offset is None:
            return f"rows without an offset: {self.without_offset}"
        if self.first_offset < 0:
            return f"a row has the offset {self.first_offset}"
        if self.without_timestamp:
            return f"rows without a timestamp: {self.without_timestamp}"
        if self.repeated:
            return f"rows with an offset that another row has: {self.repeated}"
        return None

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition. It must not be refused."""
        assert self.topic is not None
        assert self.partition is not None
        return TopicPartition(self.topic, self.partition)


def normalized(table: DataFrame) -> DataFrame:
    """Return the table with the columns that tasks take. Raise ConfigError for a missing column or a wrong type."""
    from pyspark.sql import functions as f

    types = {field.name: field.dataType.simpleString() for field in table.schema.fields}
    missing = [name for name in REQUIRED if name not in types]
    if missing:
        raise ConfigError(f"the table has no column {', '.join(missing)}; it has {', '.join(types)}")
    for name, wanted in _TYPES.items():
        if types.get(name, wanted[0]) not in wanted:
            raise ConfigError(f"the column {name} is {types[name]}; it must be {' or '.join(wanted)}")

    def given(name: str, type_: str) -> str:
        return f"`{name}`" if name in types else f"CAST(NULL AS {type_})"

    return table.select(
        "topic",
        f.expr("CAST(`partition` AS int)"),
        f.expr("CAST(`offset` AS bigint)"),
        "timestamp",
        f.expr(f"COALESCE(CAST({given('timestampType', 'int')} AS int), 0)").alias("timestampType"),
        f.expr(f"CAST({given('key', 'binary')} AS binary)").alias("key"),
        f.expr("CAST(value AS binary)").alias("value"),
        f.expr(given("headers", HEADERS)).alias("headers"),
    )


def partitions_of(table: DataFrame) -> list[TablePartition]:
    """Return the partitions of a ``normalized`` table, sorted."""
    from pyspark.sql import functions as f

    sizes = f.coalesce(f.octet_length("key"), f.lit(0)) + f.coalesce(f.octet_length("value"), f.lit(0))
    found = table.groupBy("topic", "partition").agg(
        f.count("*").alias("records"),
        f.min("offset").alias("first_offset"),
        f.max("offset").alias("last_offset"),
        f.sum(sizes).alias("size"),
        f.count_if(f.col("offset").isNull()).alias("without_offset"),
        f.count_if(f.col("timestamp").isNull()).alias("without_timestamp"),
        (f.count("offset") - f.count_distinct("offset")).alias("repeated"),
    )
    return [TablePartition(**row.asDict()) for row in found.orderBy("topic", "partition").collect()]
