"""The ``retention`` report: when and by which rule each segment will be deleted, and why not yet."""

from tidelog.inspect.retention.explain import Cause, DeletionTrigger, SegmentOutlook
from tidelog.inspect.retention.survey import PartitionRetention, survey_log, survey_retention

__all__ = [
    "Cause",
    "DeletionTrigger",
    "PartitionRetention",
    "SegmentOutlook",
    "survey_log",
    "survey_retention",
]
