"""What tests of code that uses tidelog need, and tidelog's own: a clock and a scheduler that stand still."""

from tidelog.testing.held_clock import HeldClock
from tidelog.testing.held_scheduler import HeldScheduler, HeldTask

__all__ = ["HeldClock", "HeldScheduler", "HeldTask"]
