"""What the site has beside docs/: mkdocs calls this while it builds (`hooks:` in mkdocs.yml).

- The navigation is what docs/index.md lists: a heading is a section, the first link of each item a page.
- A page may link to what lies outside docs/: CONTRIBUTING.md, an example, a test. The site gets a page of each, so that
  it is whole without the repository. A folder's page lists its files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
INDEX = DOCS / "index.md"

_LINK = re.compile(r"(?P<before>\]\()(?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?(?=\))")
_FENCE = re.compile(r"^(`{3,}).*?^\1\s*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]+`")
"""In a table's cell a repository browser needs `a\\|b`, and shows `a|b`; the site would show the backslash."""
_ITEM = re.compile(r"^- \[(?P<title>[^\]]+)\]\((?P<target>[^)\s]+)\)")
_LANGUAGES = {".py": "python", ".sql": "sql", ".toml": "toml", ".json": "json", ".yml": "yaml"}
_FOUND_LAST = ("decisions/", "project/", "rules/", "source/")
_ELSEWHERE = ("http:", "https:", "mailto:")


def on_config(config: Any) -> Any:
    config["nav"] = navigation(INDEX.read_text(encoding="utf-8"))
    return config


def on_files(files: Any, config: Any) -> Any:
    for address, text in further_pages().items():
        files.append(File.generated(config, address, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    source = page.file.abs_src_path
    if page.file.src_uri.startswith(_FOUND_LAST):
        page.meta["search"] = {"boost": 0.001}
    text = relinked(markdown, Path(source), page.file.src_uri) if source else markdown
    return _outside_fences(text, lambda part: _CODE.sub(lambda code: code[0].replace("\\|", "|"), part))


def navigation(index: str) -> list[dict[str, Any]]:
    """The first page is index.md itself; then a section for each heading with items."""
    sections: list[dict[str, Any]] = [{"Home": "index.md"}]
    title, pages = "", list[dict[str, str]]()
    for line in [*index.splitlines(), "## "]:
        if line.startswith("## "):
            sections += [{title: pages}] if pages else []
            title, pages = line[3:], []
        elif item := _ITEM.match(line):
            pages.append({item["title"]: address_of(DOCS / item["target"])})
    return sections


def further_pages() -> dict[str, str]:
    """Text by address, of all that pages link to outside docs/, and of the folders they link to."""
    found: dict[str, str] = {}
    todo = [path for page in DOCS.rglob("*.md") for path in linked_from(page)]
    while todo:
        path = todo.pop()
        address = address_of(path)
        if address in found or (DOCS / address).exists():
            continue
        if path.is_dir():
            found[address] = _listing(path, address)
            todo += _files(path)
        else:
            found[address] = _page_of(path, address)
            todo += linked_from(path) if path.suffix == ".md" else []
    return found


def linked_from(page: Path) -> list[Path]:
    """The files and folders that a page of Markdown links to."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    targets = [link["target"] for link in _LINK.finditer(text) if not link["target"].startswith(_ELSEWHERE)]
    return [Path(os.path.normpath(page.parent / target)) for target in targets]


def address_of(path: Path) -> str:
    """Where the site has it, as mkdocs names its sources."""
    path = Path(os.path.normpath(path))
    if path.is_dir():
        inside = path.relative_to(DOCS) if path.is_relative_to(DOCS) else "source" / path.relative_to(ROOT)
        own = "README.md" if (path / "README.md").exists() else "index.md"
        return (inside / own).as_posix()
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    inside = path.relative_to(ROOT)
    if inside.suffix == ".md":
        return f"project/{inside.stem.lower()}.md" if inside.parent == Path() else f"source/{inside.as_posix()}"
    return f"source/{inside.as_posix()}.md"


def relinked(text: str, source: Path, address: str) -> str:
    """The Markdown of a page that has this address, with each relative link to where the site has its target."""
    here = PurePosixPath(address).parent

    def moved(link: re.Match[str]) -> str:
        if link["target"].startswith(_ELSEWHERE):
            return link[0]
        target = address_of(source.parent / link["target"])
        return f"{link['before']}{os.path.relpath(target, here)}{link['anchor'] or ''}"

    return _outside_fences(text, lambda part: _LINK.sub(moved, part))


def _outside_fences(text: str, change: Callable[[str], str]) -> str:
    parts, at = list[str](), 0
    for fence in _FENCE.finditer(text):
        parts += [change(text[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*parts, change(text[at:])])


def _page_of(path: Path, address: str) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return relinked(text, path, address)
    fence = "`" * 4
    return f"# {path.relative_to(ROOT).as_posix()}\n\n{fence}{_LANGUAGES.get(path.suffix, 'text')}\n{text}{fence}\n"


def _listing(folder: Path, address: str) -> str:
    here = PurePosixPath(address).parent
    items = [f"- [{_title(path)}]({os.path.relpath(address_of(path), here)})" for path in _files(folder)]
    title = folder.name.capitalize() if folder.is_relative_to(DOCS) else folder.relative_to(ROOT).as_posix()
    return "\n".join([f"# {title}", "", *items]) + "\n"


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if path.is_file() and not path.name.startswith((".", "__"))]


def _title(path: Path) -> str:
    """Of a page its heading."""
    is_page = path.suffix == ".md"
    return path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ") if is_page else path.name
