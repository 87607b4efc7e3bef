"""The house rules, checked on every file; and each check, checked on a planted offence."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "nextword"

MAX_PARAMETERS = 8
# These keep the signature that transformers calls them with.
WIDE_SIGNATURES = {"forward", "prepare_inputs_for_generation"}
# The options of these are their parameters, so that an editor shows them.
WITH_OPTIONS = {"score", "generate", "train", "compare", "evaluate", "calibrate", "trace"}

# Who may import whom of ours is said in pyproject.toml, for import-linter; here is what it cannot say. These libraries
# are imported inside functions only, so that reading records and `nextword --help` stay quick, ...
LAZY = {
    "functional": {"transformers"},
    "distribution": {"transformers"},
    "heads.context": {"transformers"},
    "results.records": {"torch", "transformers", "datasets"},
    "cli": {"torch", "transformers", "datasets", "matplotlib", "scipy", "accelerate"},
}
# ... and that every room may, because a model can be attached, trained or checked without them.
LAZY_EVERYWHERE = {"datasets", "scipy", "matplotlib", "accelerate", "peft", "sklearn", "pandas", "tokenizers", "spacy"}

DISTRICTS = {path.name for path in SOURCE.iterdir() if path.is_dir()}

MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:home|root|Users|work|mnt|scratch|tmp|data)/\w")


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def wide_functions(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name not in WIDE_SIGNATURES | WITH_OPTIONS:
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            count = len([argument for argument in given if argument.arg not in ("self", "cls")])
            if count > MAX_PARAMETERS:
                yield f"{node.name} has {count} parameters"


def imports(tree: ast.AST, module: str) -> Iterator[tuple[str, bool]]:
    """Every imported name in full, with whether it is imported when the module is."""
    inside = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or is_type_checking(node)
        for child in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) not in inside
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")[: -node.level]
                base = ".".join([*parents, base] if base else parents)
            for alias in node.names:
                yield f"{base}.{alias.name}", id(node) not in inside


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def module_of(path: Path) -> str:
    """Dotted name; ``nextword.heads.__init__`` for a package file, so that relative imports count alike everywhere."""
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)


def wrong_imports(tree: ast.AST, module: str) -> Iterator[str]:
    """Libraries that are imported too early, and the package with its public names, which only the doors import."""
    if module == "nextword.__init__":
        return
    place = module.removeprefix("nextword.")
    lazy = LAZY_EVERYWHERE.union(*(names for room, names in LAZY.items() if f"{place}.".startswith(f"{room}.")))
    for name, at_import in imports(tree, module):
        library, _, ours = name.partition(".")
        if at_import and library in lazy:
            yield f"{module} imports {library}"
        if library == "nextword" and not place.startswith("cli") and ours.partition(".")[0] not in DISTRICTS:
            yield f"{module} imports {name}"


def listed_files() -> list[Path]:
    """What git tracks or would track; everything in a source distribution without git."""
    command = ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    if listed.returncode:
        return [path for path in ROOT.rglob("*") if path.is_file() and ".venv" not in path.parts]
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def machine_paths(text: str) -> list[str]:
    return [match.group() for match in MACHINE_PATH.finditer(text)]


def test_functions_are_narrow() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {one}" for path in python_files("src") for one in wide_functions(tree_of(path))
    ]
    assert not found


def test_no_drawer_for_odds_and_ends() -> None:
    drawers = {"utils.py", "util.py", "misc.py", "common.py"}
    assert not [str(path) for path in python_files("src", "tests", "examples") if path.name in drawers]


def test_nothing_is_imported_too_early() -> None:
    assert not [offence for path in python_files("src") for offence in wrong_imports(tree_of(path), module_of(path))]


def test_no_paths_of_one_machine() -> None:
    found = {}
    for path in listed_files():
        try:
            paths = machine_paths(path.read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            continue  # an image or an array
        if paths:
            found[str(path.relative_to(ROOT))] = paths
    assert not found


@pytest.mark.parametrize("kind", ["heads", "objectives", "conditioners", "tasks"])
def test_every_registered_part_has_its_page(kind: str) -> None:
    import importlib

    room = {"conditioners": "conditioning", "tasks": "experiments.tasks"}.get(kind, kind)
    names = importlib.import_module(f"nextword.{room}").registry.names()
    pages = {page.stem for page in (ROOT / "docs" / kind).glob("*.md")} - {"index"}
    assert names
    assert set(names) - pages == set(), f"docs/{kind}: pages are missing"
    if kind != "heads":  # what follows a + has pages there too; tests/meta/test_docs.py holds both to the list
        assert pages - set(names) == set(), f"docs/{kind}: pages of nothing"


def test_planted_wide_function_is_found() -> None:
    eight = ", ".join("abcdefgh")
    assert list(wide_functions(ast.parse(f"def f({eight}, *, i): ..."))) == ["f has 9 parameters"]
    assert not list(wide_functions(ast.parse(f"class A:\n  def f(self, {eight}): ...")))
    assert not list(wide_functions(ast.parse(f"def forward({eight}, i): ...")))


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("nextword.heads.cache", "from nextword import attach"),
        ("nextword.heads.cache", "import nextword as nw"),
        ("nextword.heads.cache", "def f():\n    from nextword import attach"),
        ("nextword.results.records", "import torch"),
        ("nextword.results.records.files", "import torch"),
        ("nextword.cli.app", "from transformers import AutoModel"),
        ("nextword.experiments.training.train", "from datasets import Dataset"),
    ],
)
def test_planted_wrong_import_is_found(module: str, line: str) -> None:
    assert len(list(wrong_imports(ast.parse(line), module))) == 1


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("nextword.heads.cache", "from nextword.distribution import NextToken"),
        ("nextword.heads.__init__", "from . import cache"),
        ("nextword.results.records", "def f():\n    import torch"),
        ("nextword.cli.app", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch"),
        ("nextword.cli.app", "import nextword as nw"),
        ("nextword.__init__", "from nextword.model import attach"),
    ],
)
def test_right_import_is_left_alone(module: str, line: str) -> None:
    assert not list(wrong_imports(ast.parse(line), module))


def test_planted_machine_path_is_found() -> None:
    slash = "/"
    assert machine_paths(f"see {slash}home{slash}ann{slash}x")
    assert machine_paths(f'"{slash}tmp{slash}run"')
    assert not machine_paths("../shared/data/wikitext-2 runs/work/x https://example.org/data/x ~/work/x")
