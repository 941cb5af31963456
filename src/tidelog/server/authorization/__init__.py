"""Who may do what: access control lists, and the question whether a client may."""
