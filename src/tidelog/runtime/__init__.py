"""What the engine takes from the outside besides files: the clock. Imports nothing of tidelog."""

from tidelog.runtime.clock import SYSTEM_CLOCK, Clock, SystemClock

__all__ = ["SYSTEM_CLOCK", "Clock", "SystemClock"]
