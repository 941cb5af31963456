"""The columns of a query that become its records, and their types.

=============  =============================================  =======================================================
column         types                                          if it is missing
=============  =============================================  =======================================================
``topic``      string                                         the option ``topic`` is needed, which overrides it
``key``        string, binary                                 no record has a key
``value``      string, binary                                 an error
``headers``    array<struct<key:string,value:binary>>         no record has headers
``partition``  int                                            the key decides, see ``placement``
=============  =============================================  =======================================================

Any other column is ignored. The functions are pure. Source: Spark's ``KafkaWriter``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.model import ConfigError
from tidelog.spark.read.schema import HEADERS

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.types import StructType

_HEADERS = "array<struct<key:string,value:binary>>"
_TYPES: Mapping[str, Mapping[str, pa.DataType]] = {
    "topic": {"string": pa.string()},
    "key": {"string": pa.string(), "binary": pa.binary()},
    "value": {"string": pa.string(), "binary": pa.binary()},
    "headers": {_HEADERS: HEADERS},
    "partition": {"int": pa.int32()},
}
_ROWS = 10_000
"""The number of rows that Spark puts into an Arrow batch."""


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """``schema`` has the record's columns, named as above. ``places`` are their indexes in the query."""

    schema: pa.Schema
    places: tuple[int, ...]

    @classmethod
    def of(cls, query: StructType, topic: str | None) -> SinkColumns:
        """Select the columns of a query. ``topic`` is the option. Raise ConfigError if a column is missing or has a
        wrong type."""
        places: dict[str, int] = {}
        for place, name in enumerate(query.names):
            places.setdefault(name, place)
        if topic is not None:
            places.pop("topic", None)
        elif "topic" not in places:
            raise ConfigError("The query has no column 'topic': name the topic of all rows with the option 'topic'")
        if "value" not in places:
            raise ConfigError(f"The query has no column 'value', only {', '.join(query.names) or 'none at all'}")
        fields = []
        for name, types in _TYPES.items():
            if name not in places:
                continue
            given = query[places[name]].dataType.simpleString()
            if given not in types:
                raise ConfigError(f"The column '{name}' has type {given}, it must be {' or '.join(types)}")
            fields.append(pa.field(name, types[given]))
        return cls(pa.schema(fields), tuple(places[field.name] for field in fields))

    def of_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the record's columns of a batch of the query."""
        return batch.select(list(self.places))

    def of_rows(self, rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
        """Yield the record's columns of the query's rows, some thousands per batch."""
        left = iter(rows)
        while part := list(islice(left, _ROWS)):
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([_plain(row[place]) for row in part], field.type)
                    for place, field in zip(self.places, self.schema, strict=True)
                ],
                schema=self.schema,
            )


def _plain(value: Any) -> Any:
    """Convert headers, which are rows within a row, to dictionaries."""
    return [one and one.asDict() for one in value] if isinstance(value, list) else value
