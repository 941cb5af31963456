"""The options of a mirror, and the plan of a run."""
