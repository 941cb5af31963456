"""The stream source: where a stream is, how far its next batch goes, and what of it was lost."""
