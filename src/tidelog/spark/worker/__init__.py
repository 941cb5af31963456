"""Support for Spark's Python workers: errors that reach the user whole, and faster imports."""
