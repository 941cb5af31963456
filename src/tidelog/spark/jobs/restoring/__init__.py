"""The parts of the restore job: facts about a table's partitions, and logs written from its rows."""
