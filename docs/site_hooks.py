"""What the site has besides docs/: the documents of the root, and the files of the tree that pages link to. Links that are right in the
tree are made right in the site, so that pages are written for one of the two only."""

import os
import pathlib
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parent.parent
#: Documents of the root, and the site's names for them.
DOCUMENTS = {"README.md": "index.md", "CHANGELOG.md": "CHANGELOG.md", "ARCHITECTURE.md": "ARCHITECTURE.md", "CONTRIBUTING.md": "CONTRIBUTING.md"}
LINK = re.compile(r"(\]\()(?!\w+:|#)([^)#\s]+)((?:#[^)\s]*)?\))")


def in_site(path: pathlib.Path) -> pathlib.PurePosixPath | None:
    """The site's name for a file of the tree; None if it has none."""
    name = path.relative_to(ROOT)
    if str(name) in DOCUMENTS:
        return pathlib.PurePosixPath(DOCUMENTS[str(name)])
    if name.parts[0] == "docs":
        return pathlib.PurePosixPath(*name.parts[1:])
    if path.is_dir():
        return in_site(path / "README.md") if (path / "README.md").is_file() else None
    return pathlib.PurePosixPath("tree", *name.parts)


def source(file: File) -> pathlib.Path:
    """The file of the tree that a page of the site is made from."""
    for name, page in DOCUMENTS.items():
        if file.src_uri == page:
            return ROOT / name
    parts = pathlib.PurePosixPath(file.src_uri).parts
    return ROOT.joinpath(*parts[1:]) if parts[0] == "tree" else ROOT.joinpath("docs", *parts)


def links(path: pathlib.Path) -> list[pathlib.Path]:
    """The files of the tree that a document links to."""
    found = []
    for _, target, _ in LINK.findall(path.read_text()):
        there = (path.parent / target).resolve()
        if there.is_relative_to(ROOT) and there.exists():
            found.append(there / "README.md" if there.is_dir() else there)
    return [there for there in found if there.is_file()]


def on_files(files, config):
    """Adds what pages link to outside of docs/, and what that links to."""
    todo = [ROOT / name for name in DOCUMENTS] + [pathlib.Path(f.abs_src_path) for f in files if f.src_uri.endswith(".md")]
    seen = set()
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        name = in_site(path)
        if name is not None and files.get_file_from_path(str(name)) is None:
            files.append(File.generated(config, str(name), abs_src_path=str(path)))
        if path.suffix == ".md":
            todo += links(path)
    return files


def on_page_markdown(markdown, page, config, files):
    """Turns links of the tree into links of the site; what the site does not have becomes plain text."""
    here = source(page.file)

    def turned(found):
        there = (here.parent / found[2]).resolve()
        name = in_site(there) if there.is_relative_to(ROOT) and there.exists() else None
        if name is None or files.get_file_from_path(str(name)) is None:
            # A folder without a page: its name is all there is to say. What is nowhere is left to the check of links.
            return f"{found[1]}#)" if there.exists() else found[0]
        start = pathlib.PurePosixPath(page.file.src_uri).parent
        return f"{found[1]}{os.path.relpath(name, start)}{found[3]}"

    return LINK.sub(turned, markdown)
