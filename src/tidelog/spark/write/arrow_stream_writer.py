"""The stream sink for PySpark 4.1 and newer, which passes Arrow batches.

Importing this module fails before 4.1.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter

from tidelog.spark.worker import short_errors
from tidelog.spark.write.staging import StagedReport
from tidelog.spark.write.stream_writer import LogStreamWriter


class ArrowLogStreamWriter(LogStreamWriter, DataSourceStreamArrowWriter):
    @short_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedReport:
        return self.stage(map(self.columns.of_batch, iterator))
