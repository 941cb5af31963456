"""The APIs of transactions: producer ids, partitions, commits and aborts, markers and descriptions."""
