"""What can go wrong with a run: passing errors and lasting ones, signals, and the places where tests make it die."""
