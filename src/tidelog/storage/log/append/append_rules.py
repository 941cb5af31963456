"""The rules for appends to one log that follow from its settings, built once per configuration.

Pure and immutable. Source: Kafka's ``UnifiedLog.append``, ``BrokerCompressionType``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tidelog.kernel import ProduceRules
from tidelog.record.attributes import NONE, codec_number
from tidelog.record.codec.limit import MAX_DECOMPRESSED_BYTES
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.producer import AppendOrigin

_PRODUCERS_CHOICE = "producer"
_NOT_COMPRESSED = ("uncompressed", "none")
_PLAIN_BYTES = 128 * 1024 * 1024
_EXPANSION = 128
"""The highest ratio to which text compresses in a legitimate batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRules:
    max_batch_bytes: int
    max_record_bytes: int
    """Limit for the decompressed size of a record in a compressed batch."""
    log_append_time: bool
    """The log sets the timestamps."""
    before_max_ms: int
    """The most that a producer's timestamp may be behind the clock; ``after_max_ms`` limits how far it is ahead."""
    after_max_ms: int
    require_keys: bool
    codec: int | None
    """The codec's number for stored batches. None keeps the producer's codec."""
    level: int | None
    """The codec's level as in Kafka. None is the default."""
    allows_plain: bool
    """An uncompressed batch of a producer is stored as it came, except for its offsets, and no append has to flush."""
    of_clients: ProduceRules
    of_broker: ProduceRules
    of_owner: ProduceRules
    """Rules for this process's own batches: many at once, control batches and producer ids included."""

    @classmethod
    def of(cls, config: LogConfig) -> Self:
        codec, level = stored_compression(config)
        log_append_time = config.message_timestamp_type == "LogAppendTime"
        clients, broker, owner = (
            ProduceRules(
                log_append_time=log_append_time,
                before_max_ms=config.message_timestamp_before_max_ms,
                after_max_ms=config.message_timestamp_after_max_ms,
                max_batch_bytes=config.max_message_bytes,
                require_keys=config.is_compacted,
                from_client=from_client,
                single_batch=single_batch,
            )
            for from_client, single_batch in ((True, True), (False, True), (False, False))
        )
        return cls(
            max_batch_bytes=config.max_message_bytes,
            max_record_bytes=config.max_decompressed_message_bytes,
            log_append_time=log_append_time,
            before_max_ms=config.message_timestamp_before_max_ms,
            after_max_ms=config.message_timestamp_after_max_ms,
            require_keys=config.is_compacted,
            codec=codec,
            level=level,
            allows_plain=not log_append_time and not codec and not config.flushes_appends,
            of_clients=clients,
            of_broker=broker,
            of_owner=owner,
        )

    @property
    def max_plain_bytes(self) -> int:
        """Limit for the decompressed size of a batch. A producer splits a batch that is too large."""
        return min(max(_PLAIN_BYTES, _EXPANSION * self.max_batch_bytes), MAX_DECOMPRESSED_BYTES)

    def compiled(self, origin: AppendOrigin) -> ProduceRules:
        return self.of_clients if origin is AppendOrigin.CLIENT else self.of_broker

    def target_codec(self, source_codec: int) -> int:
        return source_codec if self.codec is None else self.codec


def stored_compression(config: LogConfig) -> tuple[int | None, int | None]:
    """Return number and level of the codec for stored batches. None is the producer's codec, or the default level."""
    name = config.compression_type
    if name == _PRODUCERS_CHOICE:
        return None, None
    if name in _NOT_COMPRESSED:
        return NONE, None
    return codec_number(name), getattr(config, f"compression_{name}_level", None)
