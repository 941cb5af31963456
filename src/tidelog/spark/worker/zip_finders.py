"""Spare each Spark task a tenth of a second that its Python worker spends on ``pyspark.zip``.

A worker serves many tasks, and before each PySpark calls ``importlib.invalidate_caches``, so that files shipped with
the job are found. Python's finder for zip files then reads the archive's whole directory again, in Python: over a
thousand entries for ``pyspark.zip``, which stands on every worker's path. The finders that are forgotten here are made
again, from a directory that zipimport still knows, as soon as an import asks for them; shipped archives come through
new finders in any case.

Called by: the data source, its readers and the jobs' tasks, in Spark's workers, when their work is done.
"""

from __future__ import annotations

import sys
import zipimport


def forget_zip_finders() -> None:
    finders = sys.path_importer_cache
    for path in [path for path, finder in finders.items() if isinstance(finder, zipimport.zipimporter)]:
        finders.pop(path, None)
