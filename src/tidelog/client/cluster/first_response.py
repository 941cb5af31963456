"""The first success of several attempts, each of which starts when the one before has failed or takes too long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from tidelog.client.model.errors import ClientError

T = TypeVar("T")


async def first_response(attempts: Sequence[Callable[[], Awaitable[T]]], delay_s: float) -> T:
    """Return the first result, and cancel the other attempts.

    If all fail, raise the first error that is not retriable, else the last one. Errors other than ClientError are
    raised at once.
    """
    running: set[asyncio.Future[T]] = set()
    errors: list[ClientError] = []
    waiting = list(attempts)
    try:
        while waiting or running:
            if waiting:
                running.add(asyncio.ensure_future(waiting.pop(0)()))
            done, running = await asyncio.wait(
                running, timeout=delay_s if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for one in done:
                try:
                    return one.result()
                except ClientError as error:
                    errors.append(error)
        raise next((error for error in errors if not error.is_retriable), errors[-1])
    finally:
        for one in running:
            one.cancel()
