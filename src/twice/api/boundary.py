"""The edge of the Python API: errors in the words of a caller in Python, and the names that arguments once had."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from twice.core.hints import hints_for
from twice.errors import Interrupted, TwiceError

P = ParamSpec("P")
R = TypeVar("R")


def verb(function: Callable[P, R]) -> Callable[P, R]:
    """What it raises names arguments (`date="2026-06-09"`) and calls, with the project and the profile that were given,
    where the command line would name options and commands."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TwiceError as error:
            error.reword(_words(kwargs))
            raise
        except Interrupted as interrupt:
            interrupt.error.reword(_words(kwargs))
            raise

    return called


def renamed(**now: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Arguments that had another name: `renamed(start="first")` takes `start=` still, with a warning."""

    def accepting(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            for old in now.keys() & kwargs.keys():
                warnings.warn(_deprecated(function, f"{old}=", f"{now[old]}="), DeprecationWarning, stacklevel=2)
                if now[old] in kwargs:
                    raise TypeError(f"{function.__name__}() got {old}= and {now[old]}=, which are one argument")
                kwargs[now[old]] = kwargs.pop(old)
            return function(*args, **kwargs)

        return called

    return accepting


def keyword_only(*names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Arguments that once could be given by their place: they still can, with a warning."""

    def accepting(function: Callable[..., R]) -> Callable[..., R]:
        @wraps(function)
        def called(*args: Any, **kwargs: Any) -> R:
            if len(args) > len(names):
                raise TypeError(f"{function.__name__}() takes at most {len(names)} arguments")
            for name, value in zip(names, args, strict=False):
                warnings.warn(_deprecated(function, repr(value), f"{name}={value!r}"), DeprecationWarning, stacklevel=2)
                if name in kwargs:
                    raise TypeError(f"{function.__name__}() got two values for {name}=")
                kwargs[name] = value
            return function(**kwargs)

        return called

    return accepting


def _words(given: Any) -> Callable[[str], str]:
    return hints_for(Path(given.get("project") or "."), given.get("profile")).in_python


def _deprecated(function: Callable[..., Any], old: str, new: str) -> str:
    return f"twice.{function.__name__}: {old} is now {new}"
