"""The planner as a process of the driver's JVM: requests and replies are JSON objects, one a line.

``python -m tidelog.spark.jvm.plan_server`` reads requests from stdin until it ends, and writes replies to stdout. A
request has an ``id`` and a ``request``, and the other fields of its row. A reply has the same ``id``, and ``result`` or
``error``, a sentence. Warnings go to stderr, which is the driver's log.

==========================  ========================================  ===============================================
request                     fields                                    result
==========================  ========================================  ===============================================
``table``                   options                                   columns, trustsHeaders, addresses, onlyPython
``plan``                    options, filters                          settings, tasks
``stream_open``             options                                   stream, settings, and the limits of a batch
``stream_initial``          stream                                    a position
``stream_end``              stream, start, isLimited                  end, latest: positions
``stream_plan``             stream, start, end                        tasks
``stream_stop_at_present``  stream                                    null
``stream_close``            stream                                    null
==========================  ========================================  ===============================================

Thread rule: each request runs in a thread of its own, so a long plan delays no stream. A stream's requests come one
after the other, and its lock keeps that rule.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import IO, Any

from tidelog.model import TidelogError
from tidelog.runtime.clock import SYSTEM_CLOCK
from tidelog.spark.jvm.read_plan import settings_json, tasks_json
from tidelog.spark.read.options import ReadOptions, Use, option_warnings
from tidelog.spark.read.planner import plan
from tidelog.spark.read.pruning import Pruning
from tidelog.spark.read.table_columns import Mode
from tidelog.spark.stream.log_once import LogOnce
from tidelog.spark.stream.stream_offsets import from_json, to_json
from tidelog.spark.stream.stream_options import StreamOptions
from tidelog.spark.stream.stream_progress import StreamProgress
from tidelog.storage.fs import is_url

_log = logging.getLogger(__name__)

Request = Mapping[str, Any]


@dataclass(slots=True)
class _OpenStream:
    progress: StreamProgress
    lock: threading.Lock = field(default_factory=threading.Lock)


class PlanServer:
    """The requests by name, and the open streams."""

    def __init__(self) -> None:
        self._streams: dict[int, _OpenStream] = {}
        self._numbers = count(1)
        self._requests: Mapping[str, Callable[[Request], Any]] = {
            "table": _table,
            "plan": _plan,
            "stream_open": self._open,
            "stream_initial": self._initial,
            "stream_end": self._end,
            "stream_plan": self._plan_batch,
            "stream_stop_at_present": self._stop_at_present,
            "stream_close": self._close,
        }

    def reply(self, request: Request) -> dict[str, Any]:
        """Return the reply to a request. An error becomes its sentence, and an unexpected one is logged too."""
        try:
            return {"id": request["id"], "result": self._requests[request["request"]](request)}
        except TidelogError as error:
            return {"id": request["id"], "error": str(error)}
        except Exception as error:  # the process serves other reads, and this one must not wait for ever
            _log.exception("The request %s failed", request.get("request"))
            return {"id": request["id"], "error": f"{type(error).__name__}: {error}"}

    def serve(self, requests: Iterable[str], replies: IO[str]) -> None:
        """Serve lines of requests until they end."""
        writing = threading.Lock()

        def run(line: str) -> None:
            reply = json.dumps(self.reply(json.loads(line)))
            with writing:
                replies.write(reply + "\n")
                replies.flush()

        for line in requests:
            threading.Thread(target=run, args=(line,), daemon=True).start()

    def _open(self, request: Request) -> dict[str, Any]:
        options = StreamOptions.parse(request["options"])
        for warning in option_warnings(request["options"], Use.STREAM):
            _log.warning("%s", warning)
        number = next(self._numbers)
        self._streams[number] = _OpenStream(
            StreamProgress(options, clock=SYSTEM_CLOCK.monotonic_ms, warn=LogOnce(_log))
        )
        return {
            "stream": number,
            "settings": settings_json(options.read, Pruning()),
            "maxOffsets": options.limits.max_offsets,
            "minOffsets": options.limits.min_offsets,
            "maxDelayMs": options.limits.max_delay_ms,
        }

    def _initial(self, request: Request) -> str:
        stream = self._streams[request["stream"]]
        with stream.lock:
            return json.dumps(to_json(stream.progress.initial()))

    def _end(self, request: Request) -> dict[str, str]:
        stream = self._streams[request["stream"]]
        with stream.lock:
            end = stream.progress.next_end(from_json(json.loads(request["start"])), is_limited=request["isLimited"])
            latest = stream.progress.latest
        return {"end": json.dumps(to_json(end)), "latest": json.dumps(to_json({} if latest is None else latest))}

    def _plan_batch(self, request: Request) -> dict[str, Any]:
        stream = self._streams[request["stream"]]
        start, end = from_json(json.loads(request["start"])), from_json(json.loads(request["end"]))
        with stream.lock:
            splits = stream.progress.splits(start, end)
        return {"tasks": tasks_json(splits)}

    def _stop_at_present(self, request: Request) -> None:
        stream = self._streams[request["stream"]]
        with stream.lock:
            stream.progress.stop_at_present()

    def _close(self, request: Request) -> None:
        self._streams.pop(request["stream"], None)


def _table(request: Request) -> dict[str, Any]:
    """Return the names of the columns, and a reason if only the Python reader has the table."""
    options = ReadOptions.parse(request["options"], Use.TABLE)
    reason = None
    if options.mode is not Mode.RECORDS:
        reason = f"mode {options.mode}"
    columns = [column.name for column in options.wanted_columns]
    return {
        "columns": columns,
        "onlyPython": reason,
        "addresses": [name for name in options.log_dirs if is_url(name)],
        "trustsHeaders": options.trusts_headers,
    }


def _plan(request: Request) -> dict[str, Any]:
    options = ReadOptions.parse(request["options"])
    for warning in option_warnings(request["options"]):
        _log.warning("%s", warning)
    pruning = Pruning()
    for condition in request["filters"]:
        value = condition["value"]
        pruning = pruning.narrowed_by(condition["column"], condition["kind"], value)
    return {"settings": settings_json(options, pruning), "tasks": tasks_json(plan(options, pruning))}


def main() -> None:
    """Serve stdin. Other writes to stdout go to stderr, because stdout carries the replies."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    PlanServer().serve(sys.stdin, replies)


if __name__ == "__main__":
    main()
