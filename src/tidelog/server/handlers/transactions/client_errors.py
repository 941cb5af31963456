"""Errors in the words of the client's version: before KIP-588 none of them knew PRODUCER_FENCED. Pure."""

from __future__ import annotations

from tidelog.model import TidelogError
from tidelog.protocol.errors import ErrorCode, error_code_of


def code_for(error: TidelogError, version: int, *, fenced_since: int) -> ErrorCode:
    """``fenced_since``: the version of the API from which PRODUCER_FENCED is known."""
    code = error_code_of(error)
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED and version < fenced_since else code
