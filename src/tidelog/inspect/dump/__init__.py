"""A dump of every file kind: the text of Kafka's own tool, and JSON lines for programs."""

from tidelog.inspect.dump.json_lines import JsonOptions, dump_json
from tidelog.inspect.dump.kafka_text import dump_kafka_format
from tidelog.inspect.dump.options import (
    KafkaFormatOptions,
    PayloadDecoder,
    ToolRelease,
    ValueClass,
    choose_payload_decoder,
)

__all__ = [
    "JsonOptions",
    "KafkaFormatOptions",
    "PayloadDecoder",
    "ToolRelease",
    "ValueClass",
    "choose_payload_decoder",
    "dump_json",
    "dump_kafka_format",
]
