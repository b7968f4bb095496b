"""The documentation as a site: it builds without a warning, and its pages lead to each other."""

import html.parser
import subprocess
import sys
import urllib.parse

import pytest
from conftest import ROOT


class Links(html.parser.HTMLParser):
    """The places that a page leads to or shows, and the names of its own places."""

    def __init__(self, text):
        super().__init__()
        self.links, self.names, self.loaded = [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.names |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if given.get("src"):
            self.loaded.append(given["src"])
        if tag == "link" and given.get("rel") == "stylesheet":
            self.loaded.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_document_is_a_page(site):
    for file in ROOT.glob("docs/**/*.md"):
        page = site / file.relative_to(ROOT / "docs").with_suffix("") / "index.html"
        assert page.is_file(), file
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    for file in ROOT.glob("docs/**/*.md"):
        assert str(file.relative_to(ROOT / "docs")) in nav, f"{file} is not in mkdocs.yml's nav"
    assert "Which tool for what" in (site / "index.html").read_text()


def test_links_lead_somewhere(site):
    pages = {page: Links(page.read_text()) for page in site.rglob("*.html") if page.name != "404.html"}
    assert len(pages) > 25
    broken = []
    for page, found in pages.items():
        for link in found.links + found.loaded:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                assert link not in found.loaded, f"{page} loads {link}"
                continue
            there = (page.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else page
            there = there / "index.html" if there.is_dir() else there
            if not there.is_file() or parts.fragment and there in pages and parts.fragment not in pages[there].names | {"__codelineno"}:
                if not parts.fragment.startswith("__"):
                    broken.append((str(page.relative_to(site)), link))
    assert not broken, broken[:10]
