"""``retention``: when each segment will be deleted, by which rule, and why not yet."""

from tidelog.inspect.retention.explain import Cause, Goes, SegmentOutlook
from tidelog.inspect.retention.settings import RetentionSettings, SettingSources, read_setting_sources
from tidelog.inspect.retention.survey import HighWatermarkFrom, PartitionRetention, TimeFrom, survey_retention

__all__ = [
    "Cause",
    "Goes",
    "HighWatermarkFrom",
    "PartitionRetention",
    "RetentionSettings",
    "SegmentOutlook",
    "SettingSources",
    "TimeFrom",
    "read_setting_sources",
    "survey_retention",
]
