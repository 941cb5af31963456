import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

def partition_keys(data: Buffer, offsets: NDArray[np.int32], partitions: int) -> NDArray[np.int32]: ...
