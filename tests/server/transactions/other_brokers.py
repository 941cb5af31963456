"""The other brokers of a cluster. A test sends their responses; requests pass through their wire format."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.messages import read_request, response_of, write_request
from tidelog.protocol.schemas import Struct


@dataclass(slots=True, eq=False)
class Sent:
    """A request without a response."""

    broker_id: int
    api: ApiKey
    request: Struct
    response: asyncio.Future[Struct]

    def answer(self, **values: Any) -> None:
        self.response.set_result(response_of(self.api, VERSIONS[self.api].latest, values))

    def fail(self, error: Exception) -> None:
        self.response.set_exception(error)


class OtherBrokers:
    """``sent`` has the requests without a response, oldest first."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []

    async def send(
        self, node_id: int, api: ApiKey, values: Mapping[str, Any], *, purpose: str = "", at_least: int | None = None
    ) -> Struct:
        version = VERSIONS[api].latest
        request = read_request(api, version, write_request(api, version, values))
        sent = Sent(node_id, api, request, asyncio.get_running_loop().create_future())
        self.sent.append(sent)
        return await sent.response

    def take(self, broker_id: int) -> Sent:
        """Take the only request to the broker."""
        found = [one for one in self.sent if one.broker_id == broker_id]
        assert len(found) == 1, f"{len(found)} requests to broker {broker_id} have no response"
        self.sent.remove(found[0])
        return found[0]
