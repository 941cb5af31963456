"""What a manager reports of itself and its logs."""
