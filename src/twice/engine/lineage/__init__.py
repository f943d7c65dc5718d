"""What a plan reads, each leaf with an identity that changes when its rows may have."""
