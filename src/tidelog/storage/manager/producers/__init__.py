"""Producer ids: their allocation and the sessions that append under them."""
