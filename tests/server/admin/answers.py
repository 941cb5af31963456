"""Make the responses of two brokers comparable: remove ids, places and messages that always differ."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any
from uuid import UUID

from server.admin.requests import Asked
from server.harness import WireClient
from tidelog.protocol.schemas import Struct

CLOSED = "the connection is closed"

_PLACES = ("log.dirs", "listeners", "advertised.listeners", "controller.quorum.voters", "log.dir", "metadata.log.dir")
"""The settings that contain a broker's addresses or paths."""
_WITHOUT_MEANING = {"throttle_time": 0, "host": "", "port": 0, "cluster_id": ""}
_SCALA = re.compile(r"(?:Hash)?Set\((.*)\)|requirement failed: ")
"""The text that Scala puts around or before a message."""


def answer_to(client: WireClient, asked: Asked) -> Any:
    """Return the broker's response, or ``CLOSED`` if the broker closed the connection. The client is closed then."""
    try:
        answer = comparable(client.call(asked.api, asked.version, **asked.values))
    except ConnectionError:
        return CLOSED
    return answer if asked.has_kafkas_words else without_words(answer)


def without_words(answer: Any) -> Any:
    """Return the response without its messages."""
    if isinstance(answer, dict):
        return {name: without_words(value) for name, value in answer.items() if name != "error_message"}
    return [without_words(item) for item in answer] if isinstance(answer, list) else answer


def comparable(value: Any) -> Any:
    """Convert the response to JSON values: sort lists of structs, and replace values that differ between brokers."""
    if isinstance(value, Struct):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}  # type: ignore[arg-type]
        return _struct({name: comparable(inner) for name, inner in fields.items()})
    if isinstance(value, tuple):
        items = [comparable(item) for item in value]
        return sorted(items, key=json.dumps) if any(isinstance(item, dict) for item in items) else items
    if isinstance(value, UUID):
        return "an id"
    return _SCALA.sub(r"\1", value) if isinstance(value, str) else value


def _struct(fields: dict[str, Any]) -> dict[str, Any]:
    fields.update({name: nothing for name, nothing in _WITHOUT_MEANING.items() if name in fields})
    if "documentation" in fields:
        fields["documentation"] = bool(fields["documentation"])
    if fields.get("name") in _PLACES and fields.get("value"):
        fields["value"] = "a place"
    return fields
