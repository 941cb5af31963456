"""Which of Spark's Python workers this process is: Spark has a module for each thing that it asks a data source for.

Called by: the data source and the sinks.
"""

from __future__ import annotations

import sys

PUSHDOWN = "pyspark.sql.worker.data_source_pushdown_filters"
COMMITTING = "pyspark.sql.worker.python_streaming_sink_runner"


def runs_in(worker: str) -> bool:
    """Whether this process runs that module."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return worker in sys.modules or (main is not None and main.name == worker)
