"""The transaction coordinator: the producers of transactions, and the end of each transaction."""
