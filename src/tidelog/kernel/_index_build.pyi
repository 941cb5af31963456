import numpy as np
import numpy.typing as npt

def select_index_entries(
    size: npt.NDArray[np.int32],
    last_offset: npt.NDArray[np.int64],
    max_timestamp: npt.NDArray[np.int64],
    interval_bytes: int,
    bytes_since_entry: int,
    best_timestamp: int,
    offset_of_best: int,
    last_entry_offset: int,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int64], tuple[int, int, int, int], int]: ...
