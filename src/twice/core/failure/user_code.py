"""How a user's code may fail where twice calls it."""

from __future__ import annotations

USER_CODE_FAILS = (Exception, SystemExit)
"""What ends a call of a user's code and nothing else: `sys.exit()` in a task is its failure, not the end of the
command. Ctrl-C is nobody's failure and passes. What a signal handler raised while it ran is
known by `interruption`, also behind the error that this becomes."""
