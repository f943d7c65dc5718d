"""What every way of writing shares: rows fitted, compared and counted, then one commit."""
