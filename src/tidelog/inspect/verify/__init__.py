"""The ``verify`` report: every file of a log directory compared with its log."""

from tidelog.inspect.verify.directory_check import verify_directory
from tidelog.inspect.verify.finding import Finding, Severity

__all__ = ["Finding", "Severity", "verify_directory"]
