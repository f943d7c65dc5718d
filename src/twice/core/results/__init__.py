"""What a verb gives back, for people and for programs."""
