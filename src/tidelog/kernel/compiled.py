"""The check that the package has its compiled kernels: without them, its import raises ImportError in a sentence."""

from __future__ import annotations

from sys import version_info

try:
    import tidelog.kernel._scan as _a_kernel
except ModuleNotFoundError as error:
    if error.name != "tidelog.kernel._scan":
        raise
    raise ImportError(
        f"the kernels of this tidelog are not compiled for Python {version_info.major}.{version_info.minor}: install a"
        " wheel for it, or compile them in a clone (make venv)"
    ) from None
del _a_kernel
