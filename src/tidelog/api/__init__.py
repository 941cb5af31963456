"""Door 1: ``open_log`` and ``open_directory``, and what they return."""

from tidelog.api.directory import Directory
from tidelog.api.log import Log
from tidelog.api.opening import open_directory, open_log
from tidelog.storage.log.config import LogConfig

__all__ = ["Directory", "Log", "LogConfig", "open_directory", "open_log"]
