"""What tests of code that uses tidelog need, and tidelog's own: a clock, a scheduler and a disk that obey a test."""

from tidelog.testing.disk import (
    Chance,
    Chooser,
    DiskCall,
    DiskFault,
    EveryChoice,
    Kept,
    Lost,
    PowerLoss,
    SimulatedDisk,
)
from tidelog.testing.held_clock import HeldClock
from tidelog.testing.held_scheduler import HeldScheduler, HeldTask

__all__ = [
    "Chance",
    "Chooser",
    "DiskCall",
    "DiskFault",
    "EveryChoice",
    "HeldClock",
    "HeldScheduler",
    "HeldTask",
    "Kept",
    "Lost",
    "PowerLoss",
    "SimulatedDisk",
]
