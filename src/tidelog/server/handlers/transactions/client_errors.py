"""Errors in the form of the client's version: PRODUCER_FENCED is unknown before KIP-588. Pure."""

from __future__ import annotations

from tidelog.model import TidelogError
from tidelog.protocol.errors import ErrorCode, error_code_of


def code_for(error: TidelogError, version: int, *, fenced_since: int) -> ErrorCode:
    """Return the error code for a client.

    ``fenced_since`` is the first version of the API that knows PRODUCER_FENCED. Older ones get INVALID_PRODUCER_EPOCH.
    """
    code = error_code_of(error)
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED and version < fenced_since else code
