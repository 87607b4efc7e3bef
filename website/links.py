"""Links of pages, as the site needs them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
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
