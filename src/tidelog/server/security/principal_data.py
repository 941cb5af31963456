"""A principal as bytes, as brokers send it to the controller with a forwarded request.

The bytes are those of Kafka's ``DefaultPrincipalData``, version 0: the version in two bytes, then a flexible message
with the type, the name, and whether a delegation token authenticated the client. Pure. Source: Kafka's
``DefaultKafkaPrincipalBuilder``, ``KafkaPrincipalSerde``.
"""

from __future__ import annotations

from typing import Final

from tidelog.protocol.errors import MalformedMessageError
from tidelog.protocol.field_reader import FieldReader, message_reader
from tidelog.protocol.field_writer import FieldWriter
from tidelog.server.security.principal import Principal

_VERSION: Final = 0


def read_principal(data: bytes) -> Principal:
    """Return the principal. Raise MalformedMessageError for other bytes."""
    version = int.from_bytes(data[:2], "big", signed=True)
    if len(data) < 2 or version != _VERSION:
        raise MalformedMessageError("the version of a principal is not known")
    return _read(version, memoryview(data)[2:])


def write_principal(principal: Principal) -> bytes:
    """Return the bytes of a principal; the inverse of ``read_principal``."""
    writer = FieldWriter(is_flexible=True)
    writer.buffer += _VERSION.to_bytes(2, "big")
    writer.string(principal.type)
    writer.string(principal.name)
    writer.buffer += b"\0"
    writer.tagged_fields()
    return bytes(writer.buffer)


@message_reader
def _read(_version: int, body: memoryview) -> Principal:
    reader = FieldReader(body, is_flexible=True)
    principal = Principal(reader.string(), reader.string())
    reader.int8()
    reader.tagged_fields()
    return principal
