"""What names in Python source stand for, as far as one module shows it."""
