"""The inspector as an ASGI application: from a URL to the HTML or the JSON of a page.

Page functions run in threads, with a bound on how many run at once. Every error becomes a page. Status 400
is a wrong parameter, 401 a visitor without access, and 404 no page. Status 409 means files that changed while they were
read, 422 data that cannot be read, and 503 too much work or a broker that does not respond. A report that is still
being made is 202.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from starlette.applications import Starlette
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidelog.model import (
    ConfigError,
    FileMissingError,
    OffsetOutOfRangeError,
    TidelogError,
    UnknownTopicOrPartitionError,
)
from tidelog.web.broker_link import BrokerLinkError
from tidelog.web.html import error_html, login_html, navigation_of, page_html, running_html
from tidelog.web.jobs import BusyError, StillRunningError
from tidelog.web.page_json import page_json
from tidelog.web.query import Query
from tidelog.web.request import PageRequest
from tidelog.web.routes import find_page
from tidelog.web.security import COOKIE, HEADERS, MAX_LOGIN_BYTES, AccessControl, slow_down
from tidelog.web.sources import NotFoundError
from tidelog.web.urls import split_suffix
from tidelog.web.visitors import CHALLENGE

_log = logging.getLogger(__name__)
_PAGES_AT_ONCE = 4
_STATIC = Path(__file__).parent / "static"
_TITLES = {
    400: "This URL has a mistake",
    401: "Sign in",
    404: "There is no such page",
    409: "The files changed meanwhile",
    422: "This cannot be read",
    500: "The inspector failed",
    503: "Too much work is waiting",
}


class _AnyPath(PathConvertor):
    """Takes line breaks too, which the names of groups may have."""

    regex = "(?s:.*)"


register_url_convertor("any_path", _AnyPath())


def create_app(request: PageRequest, access: AccessControl) -> ASGIApp:
    """Return the application. ``request`` has the log directories and the jobs that all pages share."""
    pages = _Pages(request, access)
    starlette = Starlette(
        routes=[
            Mount("/static", StaticFiles(directory=_STATIC)),
            Route("/login", pages.log_in, methods=["POST"]),
            Route("/{path:any_path}", pages.show, methods=["GET"]),
        ],
        exception_handlers={405: _refuse_method},
    )
    starlette.router.redirect_slashes = False  # a redirect would lead to the host that the request names
    return _Guard(starlette, access)


async def _refuse_method(_request: Request, _error: Exception) -> Response:
    return PlainTextResponse("The inspector only reads: use GET.\n", status_code=405, headers={"Allow": "GET, HEAD"})


class _Guard:
    """Adds the security headers to every response, and refuses requests that name another host."""

    def __init__(self, app: ASGIApp, access: AccessControl) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", ()), *own]}
            await send(message)

        if not self._access.accepts_host(Request(scope).headers.get("host", "")):
            refused = PlainTextResponse("This host name is not the inspector's.\n", status_code=421)
            await refused(scope, receive, guarded)
            return
        await self._app(scope, receive, guarded)


class _Pages:
    def __init__(self, request: PageRequest, access: AccessControl) -> None:
        self._request = request
        self._access = access
        self._navigation = navigation_of(request)
        self._threads = ThreadPoolExecutor(_PAGES_AT_ONCE, thread_name_prefix="page")

    async def log_in(self, request: Request) -> Response:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_LOGIN_BYTES:
                return PlainTextResponse("This is no login.\n", status_code=413)
        session = self._access.log_in(bytes(body))
        if session is None:
            await slow_down(_address(request))
            return HTMLResponse(login_html("This token is wrong.", "/", self._navigation), status_code=401)
        response = RedirectResponse(session[1], status_code=303)
        response.set_cookie(
            COOKIE, session[0], httponly=True, samesite="strict", secure=request.scope["scheme"] == "https"
        )
        return response

    async def show(self, request: Request) -> Response:
        path, wants_json = _wanted(request)
        try:
            is_admitted = await self._access.admits(
                authorization=request.headers.get("authorization", ""),
                cookie=request.cookies.get(COOKIE, ""),
                address=_address(request),
            )
        except TidelogError as error:
            return self._failed(error, wants_json=wants_json)
        if not is_admitted:
            return self._login(request, wants_json=wants_json)
        work = asyncio.get_running_loop().run_in_executor(
            self._threads, self._respond, path, _query_text(request), wants_json
        )
        return await work

    def _respond(self, path: str, query_text: str, wants_json: bool) -> Response:
        try:
            query = Query.parse(query_text)
            function, parts = find_page(path)
            page = function(replace(self._request, path=parts, query=query))
            if wants_json:
                return _json(page_json(page))
            return HTMLResponse(page_html(page, path, query, self._navigation))
        except StillRunningError as running:
            return self._running(running, path, wants_json=wants_json)
        except TidelogError as error:
            return self._failed(error, wants_json=wants_json)
        except Exception:
            _log.exception("The page %s failed", path)
            message = "This is a defect of tidelog: its log has the details."
            return self._error(500, message, {}, wants_json=wants_json)

    def _running(self, running: StillRunningError, path: str, *, wants_json: bool) -> Response:
        progress = running.progress
        if wants_json:
            state = {"state": "running", "title": running.title, "done": progress.done, "total": progress.total}
            return _json(state, status=202, headers={"Retry-After": "1"})
        html = running_html(running.title, progress, self._request.now_ms, path, self._navigation)
        return HTMLResponse(html, status_code=202, headers={"Retry-After": "1"})

    def _login(self, request: Request, *, wants_json: bool) -> Response:
        """Return the response to a visitor who has to sign in: a form for the token, and a challenge for a user."""
        ways = ["a token is needed: send it as Authorization: Bearer TOKEN"] if self._access.has_token else []
        ways += ["sign in as a user of the broker, by HTTP Basic"] if self._access.visitors is not None else []
        headers = {} if self._access.visitors is None else {"WWW-Authenticate": CHALLENGE}
        if wants_json or not self._access.has_token:
            return self._error(401, "; or ".join(ways), {}, wants_json=wants_json, headers=headers)
        query = _query_text(request)
        target = request.scope["raw_path"].decode("ascii", "replace") + (f"?{query}" if query else "")
        return HTMLResponse(login_html("", target, self._navigation), status_code=401, headers=headers)

    def _failed(self, error: TidelogError, *, wants_json: bool) -> Response:
        match error:
            case NotFoundError() | UnknownTopicOrPartitionError():
                status = 404
            case ConfigError() | OffsetOutOfRangeError():
                status = 400
            case FileMissingError():
                status = 409
            case BusyError() | BrokerLinkError():
                status = 503
            case _:
                status = 422
        details = {"file": error.path, "position": error.position, "offset": error.offset}
        known = {name: value for name, value in details.items() if value is not None}
        return self._error(status, error.message, known, wants_json=wants_json)

    def _error(
        self,
        status: int,
        message: str,
        details: Mapping[str, object],
        *,
        wants_json: bool,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        if wants_json:
            return _json({"error": message, **details}, status=status, headers=headers)
        html = error_html(status, _TITLES[status], message, details, self._navigation)
        return HTMLResponse(html, status_code=status, headers=headers)


def _address(request: Request) -> str:
    """Return the visitor's IP address."""
    return "" if request.client is None else request.client.host


def _wanted(request: Request) -> tuple[str, bool]:
    """Return the page's path, still escaped, and True for a request of JSON.

    The raw bytes are read, because ``request.url`` fails for a ``Host`` or a query that is no text.
    """
    path, is_json = split_suffix(request.scope["raw_path"].decode("ascii", "replace"))
    accepted = request.headers.get("accept", "")
    return path, is_json or ("application/json" in accepted and "text/html" not in accepted)


def _query_text(request: Request) -> str:
    return bytes(request.scope["query_string"]).decode("ascii", "replace")


def _json(value: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    # ASCII keeps lone surrogates and control characters escaped.
    text = json.dumps(value, ensure_ascii=True, indent=1, default=str)
    return Response(text + "\n", status_code=status, media_type="application/json", headers=headers)
