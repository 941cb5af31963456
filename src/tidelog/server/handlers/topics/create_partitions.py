"""CreatePartitions: more partitions for topics. A name that is in the request twice is refused.

Source: Kafka's ``ControllerApis.createPartitions``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidelog.model import TidelogError
from tidelog.protocol.errors import ErrorCode, error_code_of
from tidelog.protocol.schemas import Struct
from tidelog.server.answer import Answer
from tidelog.server.metadata.requests import NewPartitions
from tidelog.server.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Answer:
    times = Counter(topic.name for topic in request.topics)
    wanted = [_new_partitions(topic) for topic in request.topics if times[topic.name] == 1]
    results = await broker.metadata.create_partitions(wanted, validate_only=request.validate_only)
    return {
        "results": [
            *(
                _answer(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                for name, count in times.items()
                if count > 1
            ),
            *(_answer(result.name, result.error, result.message) for result in results),
        ]
    }


def refuse(context: RequestContext, request: Struct, error: TidelogError) -> Mapping[str, Any]:
    return {"results": [_answer(topic.name, error_code_of(error), error.message) for topic in request.topics]}


def _new_partitions(topic: Struct) -> NewPartitions:
    assignments = topic.assignments
    return NewPartitions(
        topic=topic.name,
        total=topic.count,
        assignments=None if assignments is None else [assignment.broker_ids for assignment in assignments],
    )


def _answer(name: str | None, code: ErrorCode, message: str | None) -> Mapping[str, Any]:
    return {"name": name, "error_code": code, "error_message": message}
