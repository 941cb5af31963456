"""The sink ``dying``: tidelog's sink, whose processes die as an order says (``points``).

Its option ``dyingOrder`` is the path of the order. Spark receives wrappers of tidelog's writers, which do the same as
the inner writers and die.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyspark.sql.datasource
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from spark.write_kills.points import dying_files, note_staging, reached
from tidelog.spark.source import TidelogDataSource

ORDER = "dyingOrder"
_StreamWriter = getattr(pyspark.sql.datasource, "DataSourceStreamArrowWriter", DataSourceStreamWriter)


class DyingDataSource(TidelogDataSource):
    def __init__(self, options: dict[str, str]) -> None:
        super().__init__({name: value for name, value in options.items() if name.lower() != ORDER.lower()})
        self.order = Path(next(value for name, value in options.items() if name.lower() == ORDER.lower()))

    @classmethod
    def name(cls) -> str:
        return "dying"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return DyingWriter(super().writer(schema, overwrite), self.order)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 (Spark's name)
        return DyingStreamWriter(super().streamWriter(schema, overwrite), self.order)

    def __reduce__(self) -> tuple[Any, ...]:
        return DyingDataSource, ({**self.options, ORDER: str(self.order)},)


class _Dying:
    def __init__(self, writer: Any, order: Path) -> None:
        self.inner = writer
        self.order = order

    def write(self, rows: Any) -> WriterCommitMessage:
        note_staging(self.order)
        with dying_files(self.order):
            message = self.inner.write(rows)
        reached(self.order, "staged")
        return message

    def commit(self, messages: Any, *batch: int) -> None:
        reached(self.order, "asked")
        with dying_files(self.order):
            self.inner.commit(messages, *batch)
        reached(self.order, "committed")

    def abort(self, messages: Any, *batch: int) -> None:
        self.inner.abort(messages, *batch)


class DyingWriter(_Dying, DataSourceArrowWriter):
    pass


class DyingStreamWriter(_Dying, _StreamWriter):  # type: ignore[misc, valid-type]
    pass
