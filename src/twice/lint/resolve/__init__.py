"""What names in Python source refer to, as far as one module shows it."""
