"""Values in Confluent's wire format: their schemas from a registry's topic or a folder, and their decoding."""
