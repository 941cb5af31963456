"""The threads that what a test began may have made."""

from __future__ import annotations

import threading


def own_threads() -> set[threading.Thread]:
    """Without those of schedulers: what an earlier test left behind may make one at any time."""
    return {thread for thread in threading.enumerate() if not thread.name.startswith("tidelog-scheduler")}
