import numpy as np
import numpy.typing as npt

def select_index_entries(
    position: npt.NDArray[np.int64],
    size: npt.NDArray[np.int32],
    last_offset: npt.NDArray[np.int64],
    max_timestamp: npt.NDArray[np.int64],
    base_offset: int,
    interval_bytes: int,
    state: tuple[int, int, int, int],
) -> tuple[npt.NDArray[np.int64], tuple[int, int, int, int], int]: ...
