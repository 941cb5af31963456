from collections.abc import Sequence
from pathlib import Path

def survey_directories(
    directories: Sequence[Path], small_files: Sequence[str], locks: Sequence[tuple[int, int]], index_ends: bool
) -> list[tuple[dict[str, int], dict[str, bytes], int, dict[str, bytes]] | None]: ...
