"""The detection of the Spark Python worker that this process is.

Spark has a separate worker module for each request to a data source.
"""

from __future__ import annotations

import sys

PUSHDOWN = "pyspark.sql.worker.data_source_pushdown_filters"
COMMITTING = "pyspark.sql.worker.python_streaming_sink_runner"


def runs_in(worker: str) -> bool:
    """Return True if this process runs the worker module."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return worker in sys.modules or (main is not None and main.name == worker)
