"""Writes docs/rules/: one page for each rule and an index, from the rules themselves.

python scripts/render_rules.py            writes the pages
python scripts/render_rules.py --check    says which are not current, and exits 1
"""

from __future__ import annotations

import sys
from pathlib import Path

from twice.lint.rules import all_rules
from twice.lint.rules.page import index, page

FOLDER = Path(__file__).parent.parent / "docs" / "rules"


def pages() -> dict[str, str]:
    """Every page by its file name."""
    found = {f"{rule.code}.md": page(rule) for rule in all_rules()}
    return {"README.md": index(all_rules()), **found}


def main() -> int:
    wanted = pages()
    if "--check" in sys.argv:
        stale = [name for name, text in wanted.items() if _read(name) != text]
        print("\n".join(f"docs/rules/{name} is not current" for name in stale) or "docs/rules is current")
        return 1 if stale else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("*.md"):
        if old.name not in wanted:
            old.unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    print(f"{len(wanted)} pages in docs/rules")
    return 0


def _read(name: str) -> str:
    path = FOLDER / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
