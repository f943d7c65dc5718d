"""What makes a write safe to repeat, as Python code shows it."""
