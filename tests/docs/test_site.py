"""The site is built as `make site` builds it, and is whole: every link resolves, nothing comes from elsewhere."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from tests.docs.browser import PROGRAM, Browser

ROOT = Path(__file__).resolve().parents[2]
FIRST_FOUND = """new Promise((found, none) => {
  const look = () => {
    const result = document.querySelector(".md-search-result__item a");
    if (result) found(result.href); else setTimeout(look, 50);
  };
  setTimeout(() => none("nothing was found in 20 s"), 20000);
  look();
})"""
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


@dataclass
class Page(HTMLParser):
    """What a page of HTML links to, what it loads, and which anchors it has."""

    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if LOADED.get(tag) in given and given.get("rel") != "canonical":
            self.loaded.append(given[LOADED[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    found: dict[Path, Page] = {}
    for path in site.rglob("*.html"):
        page = Page()
        page.feed(path.read_text(encoding="utf-8"))
        found[path] = page
    return found


def test_every_link_of_the_site_resolves(site: Path, pages: dict[Path, Page]) -> None:
    broken = [
        f"{path.relative_to(site)}: {link}"
        for path, page in pages.items()
        if path.name != "404.html"  # its links begin at the root of a server
        for link in (*page.links, *page.loaded)
        if not _resolves(link, path, pages)
    ]
    assert broken == []
    assert len(pages) > 100


def _resolves(link: str, path: Path, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(link)
    if parts.scheme:
        return parts.scheme in ("http", "https", "mailto")
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    anchor = unquote(parts.fragment)
    return target.is_file() and (not anchor or target not in pages or anchor in pages[target].anchors | {"__toc"})


def test_the_site_loads_nothing_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    """It is read offline: no CDN, no fonts of others."""
    assert {link for page in pages.values() for link in page.loaded if urlsplit(link).netloc} == set()
    assert [sheet for sheet in site.rglob("*.css") if "url(http" in sheet.read_text(encoding="utf-8")] == []


def test_the_site_is_searched_without_a_server(site: Path, pages: dict[Path, Page]) -> None:
    assert (site / "search" / "search_index.js").stat().st_size > 100_000
    assert any("iframe-worker" in script for script in pages[site / "index.html"].loaded)


def test_a_choice_in_a_tables_cell_shows_no_backslash(site: Path) -> None:
    assert "<code>delta|postgres</code>" in (site / "reference" / "cli.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if PROGRAM is None:
        pytest.skip("chromium is missing")
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.mark.parametrize(("width", "phone"), [(1440, False), (390, True)], ids=["wide screen", "phone"])
def test_no_listed_page_is_wider_than_the_window(site: Path, browser: Browser, width: int, phone: bool) -> None:
    browser.resize(width, 900, phone=phone)
    wider = {}
    for address in listed():
        browser.open(site / address.replace("README.md", "index.md").replace(".md", ".html"))
        if (found := browser.value("document.documentElement.scrollWidth")) > width:
            wider[address] = found
    assert wider == {}


@pytest.mark.parametrize(("width", "phone"), [(1440, False), (390, True)], ids=["wide screen", "phone"])
def test_what_is_typed_into_the_search_finds_its_page(site: Path, browser: Browser, width: int, phone: bool) -> None:
    """Opened as a file, without a server."""
    browser.resize(width, 900, phone=phone)
    browser.open(site / "index.html")
    browser.value("document.querySelector('label[for=__search]').click()")
    browser.value("document.querySelector('.md-search__input').focus()")
    browser.enter("backfill")
    first = browser.value(FIRST_FOUND)
    assert first.startswith((site / "backfill.html").as_uri())


def test_every_page_is_listed_in_the_index() -> None:
    """A page of a rule or a decision is listed by its folder's page."""
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    folders = ("rules/", "decisions/")
    assert {name for name in written if not name.startswith(folders)} - set(listed()) == set()
    assert len(listed()) == len(set(listed()))


def listed() -> list[str]:
    return [address for section in _site_pages()["navigation"](_index()) for address in _addresses(section)]


def _addresses(section: dict[str, Any]) -> list[str]:
    (content,) = section.values()
    return [content] if isinstance(content, str) else [address for item in content for address in item.values()]


def test_what_lies_outside_of_docs_gets_a_page_and_its_links_follow() -> None:
    hook = _site_pages()
    source = ROOT / "docs" / "strategies" / "replace.md"
    text = (
        "[a](../../CONTRIBUTING.md#how-we-work) [b](../scopes.md) [c](https://x.org)\n```md\n[d](../../LICENSE)\n```\n"
    )
    assert hook["relinked"](text, source, "strategies/replace.md") == (
        "[a](../project/contributing.md#how-we-work) [b](../scopes.md) [c](https://x.org)\n```md\n[d](../../LICENSE)\n```\n"
    )
    further = hook["further_pages"]()
    assert "project/contributing.md" in further
    assert "- [22. Rooms that show the architecture" in further["decisions/index.md"]
    assert further["source/examples/worldshop/pipelines/payouts.py.md"].startswith("# examples/worldshop/pipelines/")


def _site_pages() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "site_pages.py"))


def _index() -> str:
    return (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
