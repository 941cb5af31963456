"""Support of Spark's Python workers: errors that reach the user whole, faster tasks, and which worker this process is.

- Spark shows a worker's traceback without Spark's own frames. ``short_errors`` also removes tidelog's frames if the
  error is a TidelogError. If Spark shows all frames (``simplifiedTraceback`` is off), the sentence comes first. For
  this the error gets a copy of itself as cause: a cause is printed first, and a never raised one has no frames.
- A worker whose interpreter lacks this package could only report a failed import. ``reduce_with_import_hint`` pickles
  an object so that the error names the interpreter and the remedy.
- A worker serves many tasks, and before each of them PySpark calls ``importlib.invalidate_caches``, so that files
  shipped with the job are found. Python's finder for zip files then reads the archive's directory again, in Python: a
  tenth of a second for the thousand entries of ``pyspark.zip``. Workers call ``clear_zipimport_cache`` after their
  work. An import that needs a removed finder creates it again, from a directory that zipimport still knows. Shipped
  archives always get new finders.
- Spark has a separate worker module for each request to a data source. ``runs_in`` detects it.
"""

from __future__ import annotations

import copy
import sys
import zipimport
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from tidelog.model import TidelogError

PUSHDOWN = "pyspark.sql.worker.data_source_pushdown_filters"
COMMITTING = "pyspark.sql.worker.python_streaming_sink_runner"

_P = ParamSpec("_P")
_T = TypeVar("_T")


def short_errors(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Shorten the errors of a function that Spark calls."""

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return function(*args, **kwargs)
        except TidelogError as error:
            raise error.with_traceback(None) from copy.copy(error)

    return call


def short_errors_of_items(function: Callable[_P, Iterator[_T]]) -> Callable[_P, Iterator[_T]]:
    """Shorten the errors of a generator function that Spark calls."""

    @wraps(function)
    def iterate(*args: _P.args, **kwargs: _P.kwargs) -> Iterator[_T]:
        try:
            yield from function(*args, **kwargs)
        except TidelogError as error:
            raise error.with_traceback(None) from copy.copy(error)

    return iterate


def reduce_with_import_hint(kind: type, *arguments: object) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the result for ``__reduce__`` that makes ``kind(*arguments)`` if ``kind`` can be imported."""

    # A nested function is pickled by value, so it can run where its module is missing.
    def restore(module: str, name: str, pickled: bytes) -> Any:
        import importlib
        import pickle
        import sys

        try:
            kind = getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            raise RuntimeError(
                f"Spark's Python workers run {sys.executable}, which has no module {error.name}: install "
                "tidelog[spark] there, or set PYSPARK_PYTHON and spark.pyspark.python to an interpreter that has it "
                "(tidelog.spark.session() does)"
            ) from None
        return kind(*pickle.loads(pickled))

    import pickle

    return restore, (kind.__module__, kind.__qualname__, pickle.dumps(arguments))


def clear_zipimport_cache() -> None:
    finders = sys.path_importer_cache
    for path in [path for path, finder in finders.items() if isinstance(finder, zipimport.zipimporter)]:
        finders.pop(path, None)


def runs_in(worker: str) -> bool:
    """Return True if this process runs the worker module."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return worker in sys.modules or (main is not None and main.name == worker)
