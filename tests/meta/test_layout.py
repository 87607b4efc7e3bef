"""Where files lie, checked on every folder; and each rule, checked on a planted offence."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "nextword"
TESTS = ROOT / "tests"

NO_ROOM_OF_SOURCE = {
    "benchmarks": "of benchmarks/",
    "conformance": "every registered part with every family, objective and conditioner",
    "examples": "of examples/",
    "generation": "every mode of generate with whole models",
    "gpu": "whole models on a graphics card",
    "meta": "of files: the house rules, the documents",
    "oracles": "of the textbook forms that other tests compare with",
}
"""Folders of tests that hold no file of one room."""
OF_A_WHOLE_ROOM = {
    "checking": {"zoo"},
    "cli": {"commands"},
    "experiments/comparison": {"conditioned_methods", "several_draws", "two_stages"},
    "distribution": {"kinds"},
    "evaluation/metrics": {"registry"},
    "model": {
        "adapters", "attach_changes_nothing", "bad_input", "chunked_gradients", "conditioned_adapters",
        "conditioned_inputs", "conditioned_saving", "conditioned_sequence_update", "conditioned_training", "costs",
        "load_half", "memory", "other_tools", "precision", "prompt_tuning", "trainer",
        "unusual_backbones", "weights_of_other_kinds",
    },
    "objectives": {"training"},
    "results/records": {"records"},
    "results/report": {
        "browser", "expanded", "inspection_browser", "inspection_colours", "inspection_speed", "survey_browser",
    },
    "experiments/tasks": {"registry"},
    "experiments/training": {"seq2seq"},
}  # fmt: skip
"""Tests of a room as a whole, or of what several of its files do together: room to names without ``test_``."""


def ignored_labels(root: Path) -> list[str]:
    """Files with the number -100, once for each time; what documents it is text."""
    return [
        str(path.relative_to(root))
        for path in sorted(root.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.UnaryOp)
        and isinstance(node.op, ast.USub)
        and isinstance(node.operand, ast.Constant)
        and node.operand.value == 100
    ]


def strays(tests: Path, source: Path) -> Iterator[str]:
    """Test files that lie where no source file lies."""
    for path in sorted(tests.rglob("test_*.py")):
        place = path.relative_to(tests)
        room, name = place.parts[0], path.stem.removeprefix("test_")
        whole = name in OF_A_WHOLE_ROOM.get(place.parent.as_posix(), ())
        if room not in NO_ROOM_OF_SOURCE and not whole and not is_tested(source / place.parent, name):
            yield str(place)


def is_tested(folder: Path, name: str) -> bool:
    """Whether a test file is of a source file: of its name, or with a further word for one of its sections."""
    words = name.split("_")
    return any((folder / f"{'_'.join(words[:count])}.py").is_file() for count in range(1, len(words) + 1))


def hidden_helpers(tests: Path) -> Iterator[str]:
    """Helpers outside tests/helpers and tests/oracles: files of their own, in a conftest, or in a test file."""
    for path in sorted(tests.rglob("*.py")):
        place = path.relative_to(tests)
        if place.parts[0] in ("helpers", "oracles"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if path.name == "conftest.py":
            yield from (f"{place}: {name}" for name in no_fixtures(tree))
        elif path.name == "__init__.py":
            if any(not isinstance(node, ast.Expr) for node in tree.body):
                yield f"{place}: code"
        elif not path.name.startswith("test_"):
            yield str(place)
        for node in ast.walk(tree):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            if module.startswith("tests.") and ".test_" in module:
                yield f"{place}: takes from {module}"


def no_fixtures(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.FunctionDef):
            fixture = any("fixture" in ast.unparse(decorator) for decorator in node.decorator_list)
            if not fixture and not node.name.startswith("pytest_"):
                yield node.name


FOREIGN_FILES = {
    "torch/autograd/graph.py", "torch/utils/checkpoint.py",  # of torch
    "eval_script.py", "NLI.py",  # of published systems
}  # fmt: skip
NAMED_FILE = re.compile(r"`([\w./]+\.py)`")


def misnamed_files(texts: Iterable[Path], files: Iterable[Path]) -> Iterator[str]:
    """Files that a text names in backquotes, by the end of their path, and that are not there."""
    there = [f"/{path.as_posix()}" for path in files]
    for text in texts:
        for name in NAMED_FILE.findall(text.read_text(encoding="utf-8")):
            if name not in FOREIGN_FILES and not any(path.endswith(f"/{name}") for path in there):
                yield f"{text.name}: {name}"


def test_exceptions_are_still_there() -> None:
    assert all((TESTS / room).is_dir() and not (SOURCE / room).exists() for room in NO_ROOM_OF_SOURCE)
    named = {TESTS / room / f"test_{name}.py" for room, names in OF_A_WHOLE_ROOM.items() for name in names}
    assert not [str(path) for path in named if not path.is_file()]


def test_the_ignored_label_is_defined_once() -> None:
    assert len(ignored_labels(SOURCE)) == 1


def test_tests_lie_where_the_sources_lie() -> None:
    assert not list(strays(TESTS, SOURCE))


def test_helpers_lie_with_the_helpers() -> None:
    assert not list(hidden_helpers(TESTS))


# -- each rule finds what is planted


def plant(root: Path, files: dict[str, str] | list[str]) -> None:
    """Files with their text, or empty ones."""
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[name] if isinstance(files, dict) else "", encoding="utf-8")


def test_planted_second_ignored_label_is_found(tmp_path: Path) -> None:
    defined = '"""Labels are -100 there."""\nIGNORED = -100\n'
    plant(tmp_path, {"a.py": defined, "b.py": "x = labels != -100\n", "c.py": "x = 100 - 1\n"})
    assert ignored_labels(tmp_path) == ["a.py", "b.py"]


def test_planted_stray_test_is_found(tmp_path: Path) -> None:
    plant(tmp_path / "src", ["heads/softmax.py", "optional_libraries.py"])
    right = ["heads/test_softmax.py", "meta/test_a.py", "test_optional_libraries.py", "cli/test_commands.py"]
    strayed = ["heads/parts/test_softmax.py", "heads/test_sizes.py", "test_b.py"]
    plant(tmp_path / "tests", right + strayed)
    assert list(strays(tmp_path / "tests", tmp_path / "src")) == strayed


def test_planted_helpers_are_found(tmp_path: Path) -> None:
    fixtures = "@pytest.fixture(scope='session')\ndef one(): ...\ndef pytest_x(): ...\n"
    plant(tmp_path, ["heads/cases.py", "helpers/fine.py", "model/__init__.py"])
    plant(tmp_path / "heads", {"conftest.py": f"{fixtures}def two(): ...\n", "__init__.py": "x = 1\n"})
    plant(tmp_path / "heads", {"test_a.py": "from tests.heads.test_b import x\n"})
    plant(tmp_path / "heads", {"test_b.py": "from tests.helpers import fine\n"})
    assert list(hidden_helpers(tmp_path)) == [
        "heads/__init__.py: code",
        "heads/cases.py",
        "heads/conftest.py: two",
        "heads/test_a.py: takes from tests.heads.test_b",
    ]


def test_files_that_are_named_are_there() -> None:
    """Rooms tell in which order their files act: a file that is renamed is renamed there too."""
    texts = [
        *SOURCE.rglob("*.py"),
        ROOT / "docs" / "design.md",
        ROOT / "docs" / "records" / "paper-names.md",
        ROOT / "README.md",
    ]
    scripts = [*(ROOT / "website").glob("*.py")]
    assert not list(misnamed_files(texts, [*SOURCE.rglob("*.py"), *TESTS.rglob("*.py"), *scripts]))


def test_planted_name_of_no_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("`heads/softmax.py` and ``gate.py``, not `torch/autograd/graph.py`")
    assert list(misnamed_files([tmp_path / "a.md"], [Path("src/heads/softmax.py")])) == ["a.md: gate.py"]
