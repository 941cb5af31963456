"""A simulated disk in memory: a test can make it lose its power, run full, fail or slow down."""

from tidelog.testing.disk.disk_calls import ALL_CALLS, CHANGING_CALLS, FILE_CALLS, PATH_CALLS, DiskCall, PowerLoss
from tidelog.testing.disk.disk_faults import DiskFault
from tidelog.testing.disk.sector_map import SECTOR_BYTES
from tidelog.testing.disk.simulated_disk import SimulatedDisk
from tidelog.testing.disk.simulated_file import SimulatedFile
from tidelog.testing.disk.simulated_lock import SimulatedLock
from tidelog.testing.disk.survival import Chance, Chooser, EveryChoice, Kept, Lost

__all__ = [
    "ALL_CALLS",
    "CHANGING_CALLS",
    "FILE_CALLS",
    "PATH_CALLS",
    "SECTOR_BYTES",
    "Chance",
    "Chooser",
    "DiskCall",
    "DiskFault",
    "EveryChoice",
    "Kept",
    "Lost",
    "PowerLoss",
    "SimulatedDisk",
    "SimulatedFile",
    "SimulatedLock",
]
