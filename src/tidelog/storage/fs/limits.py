"""What this process may have: open files (``ulimit -n``) and mappings of files (``vm.max_map_count``).

A log that is written to holds one open file, and what is kept open for speed is bounded (``kept_open``), so that ten
thousand logs fit into the limits as systems set them, once the soft limit of open files is raised to the hard one. Who
runs into a limit all the same is told which, and how to raise it. Called by: whoever starts with many logs, the local
file system. Source: the JVM raises its limit at its start, too (``-XX:+MaxFDLimit``).
"""

from __future__ import annotations

import logging
import resource
from pathlib import Path

_MAPPINGS = Path("/proc/sys/vm/max_map_count")
_USUAL_MAPPINGS = 65_530
_NO_LIMIT = 2**31

_log = logging.getLogger(__name__)


def open_file_limits() -> tuple[int, int]:
    """How many files this process may open, and how many it may allow itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        _NO_LIMIT if soft == resource.RLIM_INFINITY else soft,
        _NO_LIMIT if hard == resource.RLIM_INFINITY else hard,
    )


def mapping_limit() -> int:
    """How many mappings this process may have; the usual number where the system does not say."""
    try:
        return int(_MAPPINGS.read_text())
    except (OSError, ValueError):
        return _USUAL_MAPPINGS


def raise_open_file_limit() -> int:
    """Allow this process as many open files as it may allow itself; how many those are, in a line of the log too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            _log.info("This process may open %d files instead of %d (ulimit -n)", open_file_limits()[0], soft)
        except (OSError, ValueError) as error:  # some systems name a hard limit that they do not grant
            _log.warning("This process may open only %d files (ulimit -n), which cannot be raised: %s", soft, error)
    return open_file_limits()[0]


def too_many_files() -> str:
    soft, hard = open_file_limits()
    allowed = f"this process has too many open files: it may open {soft:,} (ulimit -n"
    if soft < hard:
        return f"{allowed}), and allow itself {hard:,}: raise it with 'ulimit -n {hard}' before the start"
    return f"{allowed}, which is its hard limit too): raise that in limits.conf, or with LimitNOFILE= for a service"


def too_many_mappings() -> str:
    return (
        f"not enough memory, or too many mappings of files: this process may have {mapping_limit():,}"
        " (vm.max_map_count): raise it with 'sysctl -w vm.max_map_count='"
    )
