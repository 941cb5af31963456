"""What one log takes from whoever appends to it, as far as that follows from its settings. Made once a configuration.

Called by: the appends. Pure, immutable. Source: Kafka's ``UnifiedLog.append``, ``BrokerCompressionType``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tidelog.kernel import ProduceRules
from tidelog.record.attributes import NONE, codec_number
from tidelog.record.codec.limit import MAX_DECOMPRESSED_BYTES
from tidelog.storage.log.config import LogConfig
from tidelog.storage.producer import AppendOrigin

CURRENT_MAGIC = 2
_PRODUCERS_CHOICE = "producer"
_NOT_COMPRESSED = ("uncompressed", "none")
_PLAIN_BYTES = 128 * 1024 * 1024
_EXPANSION = 128
"""What text compresses to one of at best, in batches that somebody means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRules:
    max_batch_bytes: int
    max_record_bytes: int
    """Of a record in a compressed batch, decompressed."""
    log_append_time: bool
    """The log sets the timestamps."""
    before_max_ms: int
    """How far behind the clock a producer's timestamp may be, and how far ahead."""
    after_max_ms: int
    require_keys: bool
    codec: int | None
    """Number of the codec that batches are stored with; None: the producer's."""
    level: int | None
    """Kafka's level of that codec; None: the default."""
    magic: int
    """Format of the batches that are stored. Below 2 only to make logs as brokers before 4.0 left them."""
    of_clients: ProduceRules
    of_broker: ProduceRules
    of_owner: ProduceRules
    """Batches of this process, many at once; control batches and producer ids may come as they are."""

    @classmethod
    def of(cls, config: LogConfig, *, magic: int = CURRENT_MAGIC) -> Self:
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
            magic=magic,
            of_clients=clients,
            of_broker=broker,
            of_owner=owner,
        )

    @property
    def max_plain_bytes(self) -> int:
        """Of a batch that was opened. A producer cuts a batch that is too large in two."""
        return min(max(_PLAIN_BYTES, _EXPANSION * self.max_batch_bytes), MAX_DECOMPRESSED_BYTES)

    def compiled(self, origin: AppendOrigin) -> ProduceRules:
        return self.of_clients if origin is AppendOrigin.CLIENT else self.of_broker

    def target_codec(self, source_codec: int) -> int:
        return source_codec if self.codec is None else self.codec


def stored_compression(config: LogConfig) -> tuple[int | None, int | None]:
    """Number and level of the codec that batches are stored with; None is the producer's, or the default."""
    name = config.compression_type
    if name == _PRODUCERS_CHOICE:
        return None, None
    if name in _NOT_COMPRESSED:
        return NONE, None
    return codec_number(name), getattr(config, f"compression_{name}_level", None)
