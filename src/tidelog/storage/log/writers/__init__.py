"""Writers that build batches of records and append them to a log of this process."""
