"""Effects after a publish: rendered once, sent, and settled by a person where the outcome is in doubt."""
