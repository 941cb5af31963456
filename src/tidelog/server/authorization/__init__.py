"""Authorization: access control lists and the decisions based on them."""
