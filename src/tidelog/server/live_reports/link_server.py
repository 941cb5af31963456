"""The broker's end of the socket to the process of the pages: a line of JSON in, a line of JSON out.

=====================================================================  ==============================================
request                                                                response
=====================================================================  ==============================================
``{"id": 1, "reports": ["node"], "name": "orders", "most": 100}``      ``{"id": 1, "reports": {"node": {…}}}``
``{"id": 2, "user": "ann", "password": "…", "address": "10.0.0.1"}``   ``{"id": 2, "is_allowed": true}``
anything else                                                          ``{"id": …, "error": "…"}``
=====================================================================  ==============================================

Requests of one process are handled at the same time, up to ``MOST_REQUESTS``: a delayed refusal must not hold up
reports. The other end is a process of this broker's own, but it handles requests from outside. So lines have a limit,
and no request can change anything. Thread rule: the event loop only.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Mapping
from typing import Any, Final

from tidelog.model import TidelogError
from tidelog.server.live_reports.reported_node import MOST_ROWS, ReportedNode, Wanted
from tidelog.server.live_reports.sign_in import check_visitor

MOST_REQUESTS: Final = 32
LONGEST_LINE: Final = 64 * 1024

_log: Final = logging.getLogger(__name__)


async def serve_link(sock: socket.socket, reported: ReportedNode) -> None:
    """Respond to the requests of one process until its end of the socket is closed. Close ``sock``."""
    reader, writer = await asyncio.open_connection(sock=sock, limit=LONGEST_LINE)
    room = asyncio.Semaphore(MOST_REQUESTS)
    running: set[asyncio.Task[None]] = set()

    async def handle(line: bytes) -> None:
        try:
            writer.write(await _respond(reported, line))
            await writer.drain()
        except OSError:
            pass  # the process has ended, and the reader sees it
        finally:
            room.release()

    try:
        while line := await reader.readline():
            await room.acquire()
            task = asyncio.ensure_future(handle(line))
            running.add(task)
            task.add_done_callback(running.discard)
    except (OSError, ValueError) as error:  # ValueError: a line that is too long
        _log.warning("The link to the process of the pages is closed: %s", error)
    finally:
        for task in running:
            task.cancel()
        writer.close()


async def _respond(reported: ReportedNode, line: bytes) -> bytes:
    number = None
    try:
        request = json.loads(line)
        number = request.get("id")
        if "reports" in request:
            return await _reports(reported, request)
        response = await _response(reported, request)
    except TidelogError as error:
        response = {"error": error.message}
    except Exception as error:
        _log.exception("A report about the broker failed")
        response = {"error": f"the broker failed to make the report: {type(error).__name__}"}
    return _encoded({"id": number, **response}) + b"\n"


async def _reports(reported: ReportedNode, request: Mapping[str, Any]) -> bytes:
    """Return the line of reports. Other tasks of the loop get their turn after each of them."""
    from tidelog.server.live_reports.reports import make_report

    most = min(max(0, int(request.get("most", MOST_ROWS))), MOST_ROWS)
    wanted = Wanted(name=str(request.get("name", "")), most=most)
    parts = []
    for name in request["reports"]:
        parts.append(_encoded(name) + b": " + _encoded(await make_report(reported, name, wanted)))
        await asyncio.sleep(0)
    return b'{"id": %b, "reports": {%b}}\n' % (_encoded(request["id"]), b", ".join(parts))


async def _response(reported: ReportedNode, request: Mapping[str, Any]) -> Mapping[str, Any]:
    if "user" in request:
        name, password, address = (str(request.get(key, "")) for key in ("user", "password", "address"))
        return {"is_allowed": await check_visitor(reported, name, password, address)}
    return {"error": "the request is not known"}


def _encoded(value: object) -> bytes:
    return json.dumps(value, allow_nan=False).encode()
