"""`make bench`: tidelog compared with its peers, a module for each row. See README.md in this directory."""
