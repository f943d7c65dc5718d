"""Where things lie: this version of twice knows folders that this machine sees, and refuses everything else. Pure."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from twice.errors import DeclarationError

# Of two letters at least: `C:\tables` is a folder.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_THIS_MACHINE = ("", "localhost")


def local_path(text: str, what: str, where: str = "") -> str:
    """The folder that a path or a `file:` URI names. Any other scheme is refused: as a path, `s3a://bucket/x` would be
    a folder of this machine with the name `s3a:`, and every run would say that it had published. Blanks around it count
    for nothing: behind one, a scheme would not be seen."""
    text = text.strip()
    found = _SCHEME.match(text)
    if found is None:
        return text
    if found[1].lower() != "file":
        raise DeclarationError(
            f"{what}: {found[1]}: locations are not supported yet, only folders that this machine sees",
            where=where,
            fix="Name a folder, e.g. one on a mounted disk.",
        )
    parts = urlsplit(text)
    if parts.netloc.lower() not in _THIS_MACHINE or not parts.path.startswith("/") or parts.query or parts.fragment:
        raise DeclarationError(
            f"{what} is not a file: location of this machine", where=where, fix="Name the folder itself: /data/tables."
        )
    return unquote(parts.path)
