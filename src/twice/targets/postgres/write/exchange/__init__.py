"""What an exchange of tables must mind: what depends on the old one, and what the new one gets from it."""
