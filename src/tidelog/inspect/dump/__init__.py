"""Dump of every file kind: Kafka's own text, and JSON lines for programs."""

from tidelog.inspect.dump.kafka_text import dump_kafka_format
from tidelog.inspect.dump.options import KafkaFormatOptions, PayloadDecoder, choose_payload_decoder

__all__ = ["KafkaFormatOptions", "PayloadDecoder", "choose_payload_decoder", "dump_kafka_format"]
