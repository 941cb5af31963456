"""The cleaner's threads, its lock on partitions, its checkpoints and its metrics."""
