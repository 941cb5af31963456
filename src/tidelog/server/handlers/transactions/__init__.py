"""Transactions: producer ids, partitions of transactions, their ends, and what is told of them."""
