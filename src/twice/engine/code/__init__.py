"""Same code? What of the project's source and of installed packages a task's result depends on."""
