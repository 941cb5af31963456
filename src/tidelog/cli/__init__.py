"""The ``tidelog`` command: one command a file; commands return reports, an output prints them."""
