"""Gathers what the site is built from in build/pages: docs/, the pages that only the site has, notebooks with outputs.

Run by ``make docs``. Pages of docs/ are read in the repository too, so they link to files outside docs/. Where the site
has a page for such a file, the link leads there; otherwise it becomes plain text.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from notebooks import write_page

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "build" / "pages"
ROOT_PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files of the repository's root, and the pages of the site that stand for them."""

LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def relinked(text: str, page: Path) -> str:
    """The page with its links as the site needs them.

    Args:
        text: Markdown.
        page: Where it stands in the repository.
    """

    def one(match: re.Match[str]) -> str:
        label, target = match.groups()
        path, _, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:") or not path:
            return match.group(0)
        file = (page.parent / path).resolve()
        if file.is_relative_to(ROOT / "docs"):
            place = file.relative_to(ROOT / "docs").as_posix()
        elif file.parent == ROOT and file.name in ROOT_PAGES:
            place = ROOT_PAGES[file.name]
        else:
            return label
        here = page.parent.relative_to(ROOT / "docs") if page.is_relative_to(ROOT / "docs") else Path()
        up = "../" * len(here.parts)
        return f"[{label}]({up}{place}{'#' + anchor if anchor else ''})"

    pieces, end = [], 0
    for fence in FENCE.finditer(text):  # links in code are no links
        pieces += [LINK.sub(one, text[end : fence.start()]), fence.group(0)]
        end = fence.end()
    return "".join([*pieces, LINK.sub(one, text[end:])])


def main() -> None:
    """Makes build/pages anew."""
    shutil.rmtree(TARGET, ignore_errors=True)
    shutil.copytree(ROOT / "docs", TARGET, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for page in (ROOT / "docs").rglob("*.md"):
        text = relinked(page.read_text(encoding="utf-8"), page)
        (TARGET / page.relative_to(ROOT / "docs")).write_text(text, encoding="utf-8")
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        text = relinked((ROOT / name).read_text(encoding="utf-8"), ROOT / name)
        (TARGET / ROOT_PAGES[name]).write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "website" / "pages", TARGET, dirs_exist_ok=True)
    for notebook in sorted((ROOT / "examples" / "notebooks").glob("*.ipynb")):
        write_page(notebook, TARGET / "notebooks", ROOT / "build" / "notebooks")


if __name__ == "__main__":
    main()
