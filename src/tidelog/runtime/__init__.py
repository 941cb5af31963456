"""The engine's inputs besides files: the clock, the scheduler of background work, threads for many items."""

from tidelog.runtime.clock import SYSTEM_CLOCK, Clock, SystemClock
from tidelog.runtime.scheduler import ScheduledTask, Scheduler, ThreadScheduler

__all__ = ["SYSTEM_CLOCK", "Clock", "ScheduledTask", "Scheduler", "SystemClock", "ThreadScheduler"]
