"""Whether a command may use a warm Spark: only where it would have started the very same itself.

Tasks see the working folder, the environment and Spark's settings of the JVM they run in: if one of these is another
one, the command starts its own. What only says which terminal a command was typed in is left out.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from twice.core.version import __version__
from twice.engine.session import jars
from twice.engine.session.java import find_java
from twice.engine.session.spark_conf import SessionSettings, archive_for, spark_conf

_ANYWHERE = Path("/")
_EACH_ITS_OWN = ("spark.local.dir", "spark.sql.warehouse.dir", "spark.driver.memory")
"""Each attached command has its own warehouse; scratch files and memory belong to the JVM, and no result depends on
them."""
_VARIABLE = "environment variable "
_OF_THE_TERMINAL = {
    *("_", "PWD", "OLDPWD", "SHLVL", "PS1", "PS2", "PROMPT", "PROMPT_COMMAND", "HISTFILE", "HISTSIZE", "LS_COLORS"),
    *("TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TERM_SESSION_ID", "COLORTERM", "COLUMNS", "LINES", "WINDOWID"),
    *("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "PAGER", "LESS", "EDITOR", "VISUAL", "TMUX", "TMUX_PANE", "STY"),
    *("DISPLAY", "WAYLAND_DISPLAY", "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "VIRTUAL_ENV_PROMPT"),
    *("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"),  # set by twice itself
}
_OF_TERMINALS = (
    *("SSH_", "XDG_SESSION_", "DBUS_SESSION_", "VSCODE_", "ITERM_", "KITTY_", "WEZTERM_", "ALACRITTY_", "VTE_"),
    *("KONSOLE_", "GNOME_TERMINAL_", "WT_", "PYTEST_", "SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE"),
)
OF_TWICE = "TWICE_"
"""Settings of twice are compared by what they set. Workers of UDFs get those of their command; a keeper's JVM has
none."""


def needs(settings: SessionSettings, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """All that a command's own Spark would be started with, by the names that people have for it."""
    delta = jars.ready(settings.cache)
    anywhere = replace(settings, folder=_ANYWHERE, warehouse=_ANYWHERE, scratch="", archive="off", warm=None)
    conf = spark_conf(anywhere, delta, None)
    return {
        "Java, or another version of Spark or Delta": archive_for(find_java(), delta, settings.cache).path.name,
        "Python": f"{sys.executable} {sys.version}",
        "twice": __version__,
        "working folder": _this_folder(),
        "umask": _umask(),
        "file of settings": _files_of_settings(environment),
        **{f"setting {name}": value for name, value in conf.items() if name not in _EACH_ITS_OWN},
        **{_VARIABLE + name: value for name, value in environment.items() if not _is_of_the_terminal(name)},
    }


def _this_folder() -> str:
    """One that was deleted and made again is another one to whoever is in it."""
    here = Path.cwd()
    seen = here.stat()
    return f"{here} {seen.st_dev}:{seen.st_ino}"


def _umask() -> str:
    """The modes of what Java writes. It can be asked for without a moment of another one on Linux alone."""
    with suppress(OSError):
        for text in Path("/proc/self/status").read_text().splitlines():
            if text.startswith("Umask:"):
                return text
    return ""


def _files_of_settings(environment: Mapping[str, str]) -> str:
    """Java reads them as it starts."""
    folders = [Path(environment.get("SPARK_CONF_DIR") or jars.spark_home() / "conf")]
    folders += [Path(environment[name]) for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR") if environment.get(name)]
    found = hashlib.sha256()
    for file in sorted(file for folder in folders for file in folder.glob("*") if file.is_file()):
        found.update(f"{file}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()


def _is_of_the_terminal(name: str) -> bool:
    return name in _OF_THE_TERMINAL or name.startswith((*_OF_TERMINALS, OF_TWICE))


def digests(needed: Mapping[str, str], key: str) -> dict[str, str]:
    """What is kept of it in a file: values may be secrets."""
    return {name: hmac.digest(key.encode(), value.encode(), "sha256").hex() for name, value in needed.items()}


def misfit(kept: Mapping[str, str], wanted: Mapping[str, str]) -> str | None:
    """What differs, named for people; None if nothing does. Both are digests under one key."""
    different = sorted(name for name in {*kept, *wanted} if kept.get(name) != wanted.get(name))
    if not different:
        return None
    first, *more = sorted(different, key=lambda name: name.startswith(_VARIABLE))
    return f"another {first}" + (f", and {len(more)} more" if more else "")
