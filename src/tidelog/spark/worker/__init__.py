"""Living in Spark's Python workers: errors that reach the user whole, imports that outlive a task."""
