"""`make bench`: tidelog beside its peers, a module a row; see README.md in this directory."""
