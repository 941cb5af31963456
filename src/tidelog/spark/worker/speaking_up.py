"""What Spark's users see when something is wrong: our sentence, not twenty lines of frames.

- Spark shows a worker's traceback, its own frames left out. ``short_errors`` takes off ours too where the error is a
  TidelogError. Where Spark shows all frames (``simplifiedTraceback`` switched off), the sentence comes first: a cause
  is printed before what it caused, and one that was never raised has no frames, so the error gets a copy of itself.
- A worker whose interpreter lacks this package could only say that an import failed. ``speaking_reduce`` pickles an
  object so that what cannot be imported there is said with the interpreter's name and the way out.

Called by: the data source and its readers, which Spark drives in its workers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from tidelog.model import TidelogError

_P = ParamSpec("_P")
_T = TypeVar("_T")


def short_errors(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Decorates what Spark calls."""

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return function(*args, **kwargs)
        except TidelogError as error:
            raise error.with_traceback(None) from copy.copy(error)

    return call


def short_errors_of_items(function: Callable[_P, Iterator[_T]]) -> Callable[_P, Iterator[_T]]:
    """Decorates what Spark calls for an iterator."""

    @wraps(function)
    def iterate(*args: _P.args, **kwargs: _P.kwargs) -> Iterator[_T]:
        try:
            yield from function(*args, **kwargs)
        except TidelogError as error:
            raise error.with_traceback(None) from copy.copy(error)

    return iterate


def speaking_reduce(kind: type, *arguments: object) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """For ``__reduce__``: ``kind(*arguments)``, made where ``kind`` can be imported."""

    # Nested in another, a function is pickled by value: it can speak where its module is missing.
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
