"""Columns of Avro values with schema ids."""
