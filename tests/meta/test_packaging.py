"""What the package says of itself agrees: its version, what it needs, and what continuous integration runs."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jaxtyping
import pytest
import torch
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from typer.testing import CliRunner

import nextword
from nextword.cli import app
from nextword.functional.probability import log_add_exp
from tests.conftest import SHAPED

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOW: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def requirements() -> Iterator[Requirement]:
    yield from map(Requirement, PROJECT["project"]["dependencies"])
    for extra in PROJECT["project"]["optional-dependencies"].values():
        yield from (one for one in map(Requirement, extra) if one.name != "nextword")


def pins() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def test_one_version() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/nextword/settings/version.py"
    assert CliRunner().invoke(app, ["--version"]).stdout == f"nextword {nextword.__version__}\n"
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == nextword.__version__
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    assert newest[1] in {nextword.__version__, "Unreleased"}


def test_every_python_that_is_named_is_tested() -> None:
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    jobs = WORKFLOW["jobs"]
    assert named == [
        jobs["everything"]["steps"][1]["with"]["python-version"],
        *jobs["python"]["strategy"]["matrix"]["python"],
    ]
    assert PROJECT["project"]["requires-python"] == f">={named[0]}"


@pytest.mark.parametrize(("name", "above"), [("transformers", {"<6"}), ("numpy", set())])
def test_lower_bounds_are_tested(name: str, above: set[str]) -> None:
    bounds = next(one for one in requirements() if one.name == name).specifier
    oldest = re.search(rf"^OLDEST\s*:=.*/{name}==([0-9.]+)/", MAKEFILE, re.MULTILINE)
    assert oldest is not None
    assert {str(bound) for bound in bounds} == {f">={Version(oldest[1]).major}.{Version(oldest[1]).minor}", *above}


def test_both_ends_of_transformers_are_tested() -> None:
    assert WORKFLOW["jobs"]["transformers"]["strategy"]["matrix"]["target"] == ["test-oldest", "test-newest"]


@pytest.mark.parametrize("requirement", sorted(set(requirements()), key=str), ids=str)
def test_what_is_required_is_pinned(requirement: Requirement) -> None:
    pinned = pins().get(canonicalize_name(requirement.name))
    assert pinned is not None, f"constraints.txt has no line for {requirement.name}"
    assert pinned in requirement.specifier, f"constraints.txt pins {requirement.name}=={pinned}"


def test_what_the_workflow_runs_exists() -> None:
    commands = [step["run"] for job in WORKFLOW["jobs"].values() for step in job["steps"] if "run" in step]
    matrix = WORKFLOW["jobs"]["transformers"]["strategy"]["matrix"]["target"]
    targets = {found for command in commands for found in re.findall(r"make ([a-z-]+)", command)}
    known = set(re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.MULTILINE))
    assert {"test", "package"} <= targets
    assert {*targets, *matrix} <= known
    scripts = [ROOT / command for command in commands if command.startswith(".ci/")]
    assert scripts
    assert all(script.stat().st_mode & 0o111 for script in scripts)


def test_the_sdist_has_what_a_clone_has() -> None:
    """A folder or page that is new at the root would be left out silently."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("no clone of the repository")
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    not_for_users = {".gitignore", ".pre-commit-config.yaml"}
    by_itself = {"pyproject.toml", "LICENSE"}
    for name in {line.partition("/")[0] for line in listed.stdout.splitlines()} - not_for_users - by_itself:
        assert any(Path(name).match(pattern.lstrip("/")) for pattern in included), f"{name} is not in the sdist"


def test_types_come_along() -> None:
    assert (Path(nextword.__file__).parent / "py.typed").is_file()


def test_every_module_with_shapes_is_checked() -> None:
    """The hook loads a module in place of Python's own loader."""
    loaders = {name: importlib.import_module(name).__spec__.loader for name in SHAPED}  # type: ignore[union-attr]
    assert [name for name, loader in loaders.items() if not type(loader).__module__.startswith("jaxtyping")] == []


def test_a_wrong_shape_is_an_error() -> None:
    jaxtyping.config.update("jaxtyping_disable", False)
    try:
        with pytest.raises(jaxtyping.TypeCheckError):
            log_add_exp(torch.zeros(2), torch.zeros(3))
    finally:
        jaxtyping.config.update("jaxtyping_disable", True)


def made(venv: Path, *words: str) -> str:
    """What make prints."""
    command = ["make", "--no-print-directory", f"VENV={venv}", f"PYTHON={sys.executable}", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
@pytest.mark.parametrize("target", ["install", "install-dev"])
def test_make_installs_with_uv_or_pip_and_their_flags(tmp_path: Path, target: str) -> None:
    flags = "PIP_FLAGS=--extra-index-url mine"
    with_uv, with_pip = (made(tmp_path / "venv", "-n", target, f"UV={uv}", flags) for uv in ("my-uv", ""))
    assert f"my-uv venv -q --seed --clear --python {sys.executable} {tmp_path}/venv" in with_uv
    python = re.escape(f"{tmp_path}/venv/bin/python")
    assert re.search(rf"my-uv pip install .*--python {python} .*--extra-index-url mine -c constraints.txt -e", with_uv)
    assert f"{sys.executable} -m venv --clear {tmp_path}/venv" in with_pip
    assert f"{tmp_path}/venv/bin/python -m pip install -qq --extra-index-url mine -c constraints.txt -e" in with_pip
    assert "my-uv" not in with_pip


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
def test_make_install_does_and_says_nothing_where_that_is_done(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    said = made(tmp_path, "-n", "install", "UV=my-uv")
    stamp = re.search(r"touch (\S+installed\S+)", said)
    assert stamp is not None
    Path(stamp[1]).touch()
    assert made(tmp_path, "install", "UV=my-uv") == ""
