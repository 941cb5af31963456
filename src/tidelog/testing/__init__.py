"""Test tools for tidelog and its users: a broker, a cluster, a clock, a scheduler and a disk under control.

Names are imported on first use, because pytest loads this package's plugin in every project's tests.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.protocol.api_key import ApiKey
    from tidelog.protocol.errors import ErrorCode
    from tidelog.testing.broker import Broker
    from tidelog.testing.cluster import CONTROLLER, Cluster
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
    from tidelog.testing.manual_clock import ManualClock
    from tidelog.testing.manual_scheduler import ManualScheduler, ManualTask

__all__ = [
    "CONTROLLER",
    "ApiKey",
    "Broker",
    "Chance",
    "Chooser",
    "Cluster",
    "DiskCall",
    "DiskFault",
    "ErrorCode",
    "EveryChoice",
    "Kept",
    "Lost",
    "ManualClock",
    "ManualScheduler",
    "ManualTask",
    "PowerLoss",
    "SimulatedDisk",
]

_HOMES = {
    "CONTROLLER": "tidelog.testing.cluster",
    "ApiKey": "tidelog.protocol.api_key",
    "Broker": "tidelog.testing.broker",
    "Cluster": "tidelog.testing.cluster",
    "ErrorCode": "tidelog.protocol.errors",
    "ManualClock": "tidelog.testing.manual_clock",
    "ManualScheduler": "tidelog.testing.manual_scheduler",
    "ManualTask": "tidelog.testing.manual_scheduler",
}
"""The modules of the names that are not in ``tidelog.testing.disk``."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tidelog.testing' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES.get(name, "tidelog.testing.disk")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
