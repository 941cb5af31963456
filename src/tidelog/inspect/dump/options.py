"""The switches of ``kafka-dump-log`` as pure values.

KafkaFormatOptions has one field per switch, with Kafka's defaults and Kafka's rules for the switches that imply others.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tidelog.model import ConfigError
from tidelog.model.internal_topics import (
    CLUSTER_METADATA_TOPIC,
    GROUP_METADATA_TOPIC,
    REMOTE_LOG_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)

MAX_BYTES_DEFAULT = 2**31 - 1
MAX_MESSAGE_SIZE_DEFAULT = 5 * 1024 * 1024


class ToolRelease(enum.StrEnum):
    """A release of Kafka whose ``kafka-dump-log`` is imitated. Kafka 4.3 rewrote the tool and changed some lines."""

    KAFKA_4_1 = "4.1"
    KAFKA_4_2 = "4.2"
    KAFKA_4_3 = "4.3"

    @property
    def is_rewritten(self) -> bool:
        return self is ToolRelease.KAFKA_4_3


class PayloadDecoder(enum.StrEnum):
    """The decoders for a log's records. The values are the ``kafka-dump-log`` switches that select them."""

    PLAIN = "plain"
    OFFSETS = "offsets-decoder"
    TRANSACTION_LOG = "transaction-log-decoder"
    CLUSTER_METADATA = "cluster-metadata-decoder"
    REMOTE_LOG_METADATA = "remote-log-metadata-decoder"
    SHARE_GROUP_STATE = "share-group-state-decoder"


_DECODER_OF_TOPIC = {
    GROUP_METADATA_TOPIC: PayloadDecoder.OFFSETS,
    TRANSACTION_STATE_TOPIC: PayloadDecoder.TRANSACTION_LOG,
    CLUSTER_METADATA_TOPIC: PayloadDecoder.CLUSTER_METADATA,
    REMOTE_LOG_METADATA_TOPIC: PayloadDecoder.REMOTE_LOG_METADATA,
    SHARE_GROUP_STATE_TOPIC: PayloadDecoder.SHARE_GROUP_STATE,
}


class ValueClass(enum.StrEnum):
    """The decoders of plain keys and values. The values are Kafka's class names."""

    STRING = "org.apache.kafka.tools.api.StringDecoder"
    INTEGER = "org.apache.kafka.tools.api.IntegerDecoder"
    LONG = "org.apache.kafka.tools.api.LongDecoder"

    @classmethod
    def parse(cls, name: str) -> ValueClass:
        """Parse Kafka's class name or its short form (``string``, ``integer``, ``long``). Raise ConfigError for any
        other."""
        for member in cls:
            if name in (member.value, member.name.lower(), member.value.rpartition(".")[2]):
                return member
        raise ConfigError(
            f"'{name}' is Java code, which cannot run here: the decoders are {', '.join(m.name.lower() for m in cls)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaFormatOptions:
    """Sizes are in bytes. ``key_class`` and ``value_class`` are None if their switch is not given."""

    release: ToolRelease = ToolRelease.KAFKA_4_3
    deep_iteration: bool = False
    print_data_log: bool = False
    decoder: PayloadDecoder = PayloadDecoder.PLAIN
    key_class: ValueClass | None = None
    value_class: ValueClass | None = None
    index_sanity_check: bool = False
    verify_index_only: bool = False
    skip_record_metadata: bool = False
    max_message_size: int = MAX_MESSAGE_SIZE_DEFAULT
    max_bytes: int = MAX_BYTES_DEFAULT

    @property
    def prints_payload(self) -> bool:
        """True if the data are printed. Every decoder switch asks for the data too."""
        return (
            self.print_data_log
            or self.decoder is not PayloadDecoder.PLAIN
            or self.key_class is not None
            or self.value_class is not None
        )

    @property
    def iterates_records(self) -> bool:
        return self.deep_iteration or self.prints_payload


def choose_payload_decoder(directory_name: str) -> PayloadDecoder:
    """Return the decoder for the records in a partition directory: by the internal topic's name, else PLAIN."""
    return _DECODER_OF_TOPIC.get(directory_name.rpartition("-")[0], PayloadDecoder.PLAIN)
