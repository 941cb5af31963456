"""Make the golden set of a cluster: ``make golden-cluster`` writes tests/golden/cluster-kafka-4.4 again.

``unclean-election`` has the log directories of three real brokers. A leader that was alone in sync was killed. Another
replica without its last records was elected, and wrote others (tests/real_kafka/compared_cluster.py).
tests/golden/README.md describes the files. The set is made once and then kept, like the others.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from golden_set import archive, sparse_copy

from golden_sets import CLUSTER, DIRECTORY, UNCLEAN_ELECTION
from real_kafka.compared_cluster import compared_cluster


def main() -> None:
    target = DIRECTORY / CLUSTER
    target.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        compared_cluster(root / "cluster", root / "kept")
        archive(sparse_copy(root / "kept", root / UNCLEAN_ELECTION), target / f"{UNCLEAN_ELECTION}.tar.gz")


if __name__ == "__main__":
    main()
