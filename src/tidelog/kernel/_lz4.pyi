import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

def open_lz4_frames(
    buffer: Buffer, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], *, enough_bytes: int, max_bytes: int
) -> tuple[memoryview, npt.NDArray[np.int64]]: ...
