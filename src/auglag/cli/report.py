"""`auglag watch`."""
