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

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 8
# These keep the signature that transformers calls them with.
WIDE_SIGNATURES = {"forward", "prepare_inputs_for_generation"}

# A room may import from itself and from the rooms on the lines above its own; "" is the package with its public names.
ORDER = (
    {"characters", "deferred_model", "optional_libraries", "plugins", "processes", "setting_names"},
    {"weights"},
    {"devices", "registry", "functional", "records", "pretrained", "workers"},
    {"config", "distribution", "overrides", "report"},
    {"corpora", "spec_syntax"},
    {"frequency", "specs"},
    {"context", "metrics"},
    {"memory", "judges", "retrieval"},
    {"heads", "evaluation"},
    {"survey"},
    {"objectives", "conditioning", "text_memory"},
    {"model_card"},
    {"model"},
    {"checking", "scoring"},
    {"datastore", "inspection"},
    {"decoding"},
    {"serving"},
    {"", "tasks"},
    {"training"},
    {"comparison", "finetuning"},
    {"reproduction"},
    {"cli"},
    {"__main__"},
)
# These know no model: they may import from themselves and from the rooms named here, nothing else of ours.
CLOSED = {
    "functional": set(),
    "registry": {"plugins", "setting_names"},
    "records": {"deferred_model", "plugins", "setting_names"},
    "metrics": {"setting_names", "records", "registry", "config", "specs", "frequency", "corpora"},
    "report": {"records"},
}
# Libraries that a room must not know, even inside a function.
FOREIGN = {"report": {"torch", "transformers", "datasets"}, "metrics": {"transformers", "datasets"}}
# Libraries that a room may import inside functions only, so that reading records and `nextword --help` stay quick, ...
LAZY = {
    "functional": {"transformers"},
    "distribution": {"transformers"},
    "context": {"transformers"},
    "records": {"torch", "transformers", "datasets"},
    "cli": {"torch", "transformers", "datasets", "matplotlib", "scipy", "accelerate"},
}
# ... and that every room may, because a model can be attached, trained or checked without them.
LAZY_EVERYWHERE = {"datasets", "scipy", "matplotlib", "accelerate", "peft", "sklearn", "pandas", "tokenizers", "spacy"}

MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:home|root|Users|work|mnt|scratch|tmp|data)/\w")


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def lines_of(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def long_functions(tree: ast.AST) -> Iterator[str]:
    """Docstrings are not counted: nobody is to save on them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = lines_of(node) - (lines_of(node.body[0]) if ast.get_docstring(node) is not None else 0)
            if lines > MAX_FUNCTION_LINES:
                yield f"{node.name} has {lines} lines"


def wide_functions(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name not in WIDE_SIGNATURES:
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


def room_of(module: str) -> str:
    """``nextword.heads.cache.Cache`` -> ``heads``; the package's own ``__init__`` -> ``""``."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] != "__init__" else ""


def wrong_imports(tree: ast.AST, module: str) -> Iterator[str]:
    room = room_of(module)
    if not room:
        return  # the public names come from everywhere
    ranks = {name: rank for rank, names in enumerate(ORDER) for name in names}
    lazy = LAZY_EVERYWHERE | LAZY.get(room, set())
    if room not in ranks:
        yield f"{module}: room '{room}' has no place in ORDER"
        return
    for name, at_import in imports(tree, module):
        library = name.split(".")[0]
        if library != "nextword":
            if library in FOREIGN.get(room, ()) or (at_import and library in lazy):
                yield f"{module} imports {library}"
            continue
        other = room_of(name)
        if other == room or name == "nextword.__version__":
            continue
        if other not in ranks or ranks[other] >= ranks[room] or (room in CLOSED and other not in CLOSED[room]):
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


def test_files_are_short() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in python_files("src", "tests", "examples")
    }
    assert lengths
    assert not {path: lines for path, lines in lengths.items() if lines > MAX_FILE_LINES}


def test_functions_are_short_and_narrow() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {offence}"
        for path in python_files("src")
        for check in (long_functions, wide_functions)
        for offence in check(tree_of(path))
    ]
    assert not found


def test_no_drawer_for_odds_and_ends() -> None:
    drawers = {"utils.py", "util.py", "misc.py", "common.py"}
    assert not [str(path) for path in python_files("src", "tests", "examples") if path.name in drawers]


def test_imports_point_one_way() -> None:
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

    room = "conditioning" if kind == "conditioners" else kind
    names = importlib.import_module(f"nextword.{room}").registry.names()
    pages = {page.stem for page in (ROOT / "docs" / kind).glob("*.md")} - {"index"}
    assert names
    assert set(names) - pages == set(), f"docs/{kind}: pages are missing"
    if kind != "heads":  # what follows a + has pages there too; tests/meta/test_docs.py holds both to the list
        assert pages - set(names) == set(), f"docs/{kind}: pages of nothing"


def test_planted_long_function_is_found() -> None:
    body = "\n".join(["    x = 1"] * MAX_FUNCTION_LINES)
    assert list(long_functions(ast.parse(f"def f():\n{body}"))) == ["f has 61 lines"]
    assert not list(long_functions(ast.parse(f"def f():\n{body[: -len('    x = 1')]}")))
    assert list(long_functions(ast.parse(f"def f():\n    '''Docstring.'''\n{body}"))) == ["f has 61 lines"]


def test_planted_wide_function_is_found() -> None:
    eight = ", ".join("abcdefgh")
    assert list(wide_functions(ast.parse(f"def f({eight}, *, i): ..."))) == ["f has 9 parameters"]
    assert not list(wide_functions(ast.parse(f"class A:\n  def f(self, {eight}): ...")))
    assert not list(wide_functions(ast.parse(f"def forward({eight}, i): ...")))


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("nextword.heads.cache", "from nextword.model import attach"),
        ("nextword.heads.cache", "from nextword import model"),
        ("nextword.heads.cache", "from ..model import attach"),
        ("nextword.heads.cache", "from nextword import attach"),
        ("nextword.heads.cache", "def f():\n    import nextword.training"),
        ("nextword.functional.chunked.budget", "from nextword.registry import Registry"),
        ("nextword.metrics.rank", "import transformers"),
        ("nextword.metrics.rank", "from nextword.distribution import NextToken"),
        ("nextword.report.comparison.page", "def f():\n    import torch"),
        ("nextword.report.comparison.page", "from nextword.metrics import rank"),
        ("nextword.records", "import torch"),
        ("nextword.cli.app", "from transformers import AutoModel"),
        ("nextword.training.train", "from datasets import Dataset"),
        ("nextword.odds", "import json"),
    ],
)
def test_planted_wrong_import_is_found(module: str, line: str) -> None:
    assert len(list(wrong_imports(ast.parse(line), module))) == 1


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("nextword.heads.cache", "from nextword.distribution import NextToken"),
        ("nextword.heads.__init__", "from . import cache"),
        ("nextword.report.comparison.page", "from nextword.records import Results"),
        ("nextword.records", "def f():\n    import torch"),
        ("nextword.cli.app", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch"),
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
