"""Loading of a log: settle the files that a crash left behind, then recover unflushed segments."""
