"""The limits of this process for open files (``ulimit -n``) and file mappings (``vm.max_map_count``).

A log that accepts appends holds one open file. The files that stay open for speed are bounded (``descriptor_cache``).
So ten thousand logs fit into the usual system limits once the soft limit of open files is raised to the hard one. If a
call still exceeds a limit, the error names the limit and says how to raise it. Source: the JVM also raises its limit at
startup (``-XX:+MaxFDLimit``).
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
    """Return the soft and the hard limit of open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        _NO_LIMIT if soft == resource.RLIM_INFINITY else soft,
        _NO_LIMIT if hard == resource.RLIM_INFINITY else hard,
    )


def mapping_limit() -> int:
    """Return the maximum number of mappings, or Linux's default if the system does not report one."""
    try:
        return int(_MAPPINGS.read_text())
    except (OSError, ValueError):
        return _USUAL_MAPPINGS


def raise_open_file_limit() -> int:
    """Raise the soft limit of open files to the hard limit, log the change and return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            _log.info("This process may open %d files instead of %d (ulimit -n)", open_file_limits()[0], soft)
        except (OSError, ValueError) as error:  # some systems report a hard limit that they do not grant
            _log.warning("This process may open only %d files (ulimit -n), which cannot be raised: %s", soft, error)
    return open_file_limits()[0]


def too_many_files() -> str:
    soft, hard = open_file_limits()
    allowed = f"this process has too many open files: it may open {soft:,} (ulimit -n"
    if soft < hard:
        return f"{allowed}), and the hard limit is {hard:,}: raise it with 'ulimit -n {hard}' before the start"
    return f"{allowed}, which is its hard limit too): raise that in limits.conf, or with LimitNOFILE= for a service"


def too_many_mappings() -> str:
    return (
        f"not enough memory, or too many mappings of files: this process may have {mapping_limit():,}"
        " (vm.max_map_count): raise it with 'sysctl -w vm.max_map_count='"
    )
