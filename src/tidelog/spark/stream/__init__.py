"""The stream source: a stream's position, the end of its next micro-batch, and data loss."""
