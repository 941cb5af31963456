"""The Python side of the JVM reader: its jar, and the planner that its driver asks."""
