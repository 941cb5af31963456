"""``retention``: when each segment will be deleted, by which rule, and why not yet."""

from tidelog.inspect.retention.explain import Cause, Goes, SegmentOutlook
from tidelog.inspect.retention.survey import PartitionRetention, survey_retention

__all__ = [
    "Cause",
    "Goes",
    "PartitionRetention",
    "SegmentOutlook",
    "survey_retention",
]
