"""The site: every page has its place in the menu, links lead out of docs/ nowhere else, formulas become MathML."""

from __future__ import annotations

import importlib.util
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[2]


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "website" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def in_menu(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            yield from in_menu(value) if isinstance(value, list) else [value]


def test_every_page_is_in_the_menu() -> None:
    menu = sorted(in_menu(tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]))
    docs, website, notebooks = ROOT / "docs", ROOT / "website" / "pages", ROOT / "examples" / "notebooks"
    pages = [
        *(page.relative_to(docs).as_posix() for page in docs.rglob("*.md")),
        *(page.relative_to(website).as_posix() for page in website.rglob("*.md")),
        *(f"notebooks/{notebook.stem}.md" for notebook in notebooks.glob("*.ipynb")),
        "contributing.md",
        "changelog.md",
        "cli-options.md",
    ]
    assert menu == sorted(pages)


@pytest.mark.parametrize(
    ("page", "text", "expected"),
    [
        ("docs/heads/mi.md", "[a](../performance.md#cost)", "[a](../performance.md#cost)"),
        ("docs/index.md", "[b](../README.md) [c](../CONTRIBUTING.md#x)", "[b](index.md) [c](contributing.md#x)"),
        ("docs/heads/mi.md", "[`d`](../../benchmarks/targets.toml)", "`d`"),
        (
            "CHANGELOG.md",
            "[e](docs/heads/mi.md) [f](https://example.org/x)",
            "[e](heads/mi.md) [f](https://example.org/x)",
        ),
        ("docs/index.md", "```\n[g](../README.md)\n```\n", "```\n[g](../README.md)\n```\n"),
        ("docs/index.md", "![h](images/loss.svg) [i](#there)", "![h](images/loss.svg) [i](#there)"),
    ],
)
def test_links_lead_to_pages_of_the_site(page: str, text: str, expected: str) -> None:
    assert module("links").relinked(text, ROOT / page) == expected


def test_every_option_is_on_the_page_of_commands(tmp_path: Path) -> None:
    module("commands").write_page(tmp_path / "cli-options.md")
    page = (tmp_path / "cli-options.md").read_text(encoding="utf-8")
    assert "\n## nextword ngram build\n" in page
    row = next(line for line in page.split("## nextword generate\n")[1].splitlines() if "`--samples`" in line)
    assert row.startswith("| `--samples` | `1` | ")
    assert "| `--text`, `--target` |" in page


def test_formulas_are_mathml() -> None:
    markdown = pytest.importorskip("markdown", reason="needs nextword[docs]")
    pytest.importorskip("latex2mathml", reason="needs nextword[docs]")
    extension = module("mathml").makeExtension()
    settings = {"pymdownx.arithmatex": {"generic": True}}

    def page(text: str) -> str:
        return markdown.markdown(text, extensions=["pymdownx.arithmatex", extension], extension_configs=settings)

    assert '<math display="inline"' in page("so $a_t$ is")
    assert '<math display="block"' in page("$$\n\\frac{a}{b}\n$$")
    with pytest.raises(ValueError, match=r"no MathML for \\nosuch"):
        page("so $\\nosuch{a}$ is")
