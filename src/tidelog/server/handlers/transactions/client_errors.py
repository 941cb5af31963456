"""Errors in the form of the client's version: PRODUCER_FENCED is unknown before KIP-588. Pure."""

from __future__ import annotations

from tidelog.model import TidelogError
from tidelog.protocol.errors import ErrorCode, error_code_of


def code_for(error: TidelogError, version: int, *, fenced_since: int) -> ErrorCode:
    """Return the client's code. ``fenced_since`` is the first API version that knows PRODUCER_FENCED."""
    code = error_code_of(error)
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED and version < fenced_since else code
