"""The small text files of a log directory and of a partition directory."""

from tidelog.model.kafka_uuid import random_uuid, uuid_from_text, uuid_to_text
from tidelog.storage.checkpoint.clean_shutdown import CLEAN_SHUTDOWN_FILE, CleanShutdownFile
from tidelog.storage.checkpoint.meta_properties import META_PROPERTIES_FILE, MetaProperties, written_at
from tidelog.storage.checkpoint.offset_checkpoint import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    OffsetCheckpoint,
)
from tidelog.storage.checkpoint.partition_metadata import PARTITION_METADATA_FILE, PartitionMetadata
from tidelog.storage.checkpoint.quorum_state import QUORUM_STATE_FILE, QuorumState

__all__ = [
    "CLEANER_CHECKPOINT",
    "CLEAN_SHUTDOWN_FILE",
    "HIGH_WATERMARK_CHECKPOINT",
    "LOG_START_CHECKPOINT",
    "META_PROPERTIES_FILE",
    "PARTITION_METADATA_FILE",
    "QUORUM_STATE_FILE",
    "RECOVERY_POINT_CHECKPOINT",
    "CleanShutdownFile",
    "MetaProperties",
    "OffsetCheckpoint",
    "PartitionMetadata",
    "QuorumState",
    "random_uuid",
    "uuid_from_text",
    "uuid_to_text",
    "written_at",
]
