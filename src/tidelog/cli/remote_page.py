"""A page of a running inspector, as JSON over HTTP.

A redirect is not followed, because the token must not go to another host. A loopback address is reached without a
proxy. A report that is still being made is asked for again until it is ready.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tidelog.model import ConfigError, DirectoryError, TidelogError
from tidelog.web.security import is_loopback
from tidelog.web.urls import json_path, split_suffix

REMOTE = ("http://", "https://")
_TIMEOUT_S = 60
_PAUSE_S = 0.3


def fetch_page(base: str, url: str, *, token: str | None = None, user: str | None = None) -> Mapping[str, Any]:
    """Return a page's JSON. ``base`` is the inspector's address, ``url`` a path with a query, ``user`` a name and a
    password with a colon between them.

    Raise ConfigError for a wrong URL or parameter, DirectoryError if no inspector responds, and TidelogError with
    the inspector's message.
    """
    path, _, query = url.partition("?")
    full = base.rstrip("/") + json_path(split_suffix(path)[0]) + (f"?{query}" if query else "")
    request = urllib.request.Request(full, headers={"Accept": "application/json", **_authorization(token, user)})
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
    if is_loopback(urlsplit(base).hostname or ""):
        handlers.append(urllib.request.ProxyHandler({}))
    opener = urllib.request.build_opener(*handlers)
    while True:
        status, found = _read(opener, request, base)
        if status != 202:
            return found
        time.sleep(_PAUSE_S)


def _authorization(token: str | None, user: str | None) -> dict[str, str]:
    if user is not None:
        return {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}
    return {} if token is None else {"Authorization": f"Bearer {token}"}


def _read(
    opener: urllib.request.OpenerDirector, request: urllib.request.Request, base: str
) -> tuple[int, Mapping[str, Any]]:
    try:
        with opener.open(request, timeout=_TIMEOUT_S) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        message = _message(error)
        raise (ConfigError(message) if error.code in (400, 401, 404) else TidelogError(message)) from None
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise DirectoryError(f"no inspector responds at {base}: {reason}") from None


def _message(error: urllib.error.HTTPError) -> str:
    """Return the inspector's own message, or the status."""
    try:
        return str(json.loads(error.read())["error"])
    except (OSError, ValueError, KeyError, TypeError):
        return f"the server responded with status {error.code}"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_arguments: object, **_named: object) -> None:
        return None
