"""Metrics reporters: CSV files, Prometheus, and users' own. Each is imported when it is named."""

from tidelog.runtime.metrics.reporters.reporter_set import ReporterSet, load_reporters

__all__ = ["ReporterSet", "load_reporters"]
