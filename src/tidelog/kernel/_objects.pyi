from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

_Kind = TypeVar("_Kind", bound=tuple[object, ...])

def byte_strings(
    data: Buffer, offsets: npt.NDArray[np.int32], validity: npt.NDArray[np.uint8] | None, start: int, end: int
) -> list[bytes | None]: ...
def named_tuples(kind: type[_Kind], *columns: list[Any]) -> list[_Kind]: ...
