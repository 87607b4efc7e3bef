"""Parts of an installed package, and of a module that ``--import`` names, are known wherever ours are."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from nextword.settings import plugins
from nextword.settings.registry import Registry, UnknownNameError

PACKAGE = Path(__file__).parents[1] / "helpers" / "dummy_package"
PARTS = {"heads": "warm", "objectives": "double", "conditioners": "still", "metrics": "shouting", "tasks": "small"}
SMALL = [
    "task.start.n_embd=16", "task.start.n_layer=1", "task.start.documents=100", "start.training.steps=2",
    "task.train_prompts=8", "task.validation_prompts=4", "task.test_prompts=6", "task.rank_rows=20", "training.steps=2",
]  # fmt: skip


def install(folder: Path, name: str, modules: list[str]) -> Path:
    """Makes ``folder`` what pip makes of a package that names these modules."""
    about = folder / f"{name.replace('-', '_')}-1.2.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    lines = [f"part{number} = {module}" for number, module in enumerate(modules)]
    (about / "entry_points.txt").write_text("\n".join([f"[{plugins.GROUP}]", *lines]) + "\n")
    return folder


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages with the dummy package in it."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    folder = tmp_path_factory.mktemp("installed")
    shutil.copytree(PACKAGE / "dummy_parts", folder / "dummy_parts")
    return install(folder, project["name"], list(project["entry-points"][plugins.GROUP].values()))


def run(*words: object, path: Path, code: int = 0, cwd: Path | None = None) -> str:
    """What a new interpreter prints, with a folder of packages."""
    there = os.pathsep.join([str(path), *([os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else [])])
    environment = os.environ | {"PYTHONPATH": there, "COLUMNS": "200"}
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=cwd, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def nextword(*words: object, path: Path, code: int = 0, cwd: Path | None = None) -> str:
    return run("-m", "nextword", *words, path=path, code=code, cwd=cwd)


@pytest.mark.slow
@pytest.mark.parametrize("kind", PARTS)
def test_lists_show_them_and_where_they_come_from(kind: str, installed: Path, tmp_path: Path) -> None:
    assert f" {PARTS[kind]} " not in nextword("list", kind, path=tmp_path)
    (line,) = (line for line in nextword("list", kind, path=installed).splitlines() if f" {PARTS[kind]} " in line)
    assert "From package 'dummy-parts'." in line
    there = nextword("--import", "dummy_parts", "list", kind, path=PACKAGE)
    (line,) = (line for line in there.splitlines() if f" {PARTS[kind]} " in line)
    assert "From module 'dummy_parts'." in line


def test_lists_read_their_settings(installed: Path) -> None:
    shown = " ".join(nextword("list", "heads", path=installed).split())
    assert "warm:3" in shown
    assert "sigsoftmax, softmax, warm." in shown  # what +mi may follow


@pytest.fixture(scope="module")
def compared(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compared") / "out"
    words = ["compare", "--task", "small", "--head", "warm:3/double", "--out", folder, *SMALL]
    assert "warm:3/double" in nextword(*words, path=installed)
    return folder


@pytest.mark.slow
def test_compare_trains_them_and_records_whose_they_are(compared: Path) -> None:
    results = json.loads((compared / "results.json").read_text())
    (run,) = results["runs"]
    assert (run["head"], run["objective"]) == ("warm:3", "double")
    assert results["environment"]["plugins"] == {"dummy-parts": "1.2"}


@pytest.mark.slow
def test_check_knows_them(compared: Path, installed: Path, tmp_path: Path) -> None:
    (model,) = compared.glob("trained/*/model")
    checked = nextword("--import", "dummy_parts", "check", model, path=PACKAGE)
    assert "sums to one" in checked
    assert "Loading weights" not in checked  # transformers' own bar
    refused = nextword("check", model, path=tmp_path, code=2)
    assert f"error: {model}: unknown head 'warm'." in refused
    assert "Traceback" not in refused


@pytest.mark.slow
def test_load_attach_and_evaluate_know_them(compared: Path, installed: Path) -> None:
    (model,) = compared.glob("trained/*/model")
    script = f"""
import nextword as nw
assert nw.load({str(model)!r}).next_word_head.config.factor == 3
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel
gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=8, n_layer=1, n_head=2))
bert = BertModel(BertConfig(vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=2))
attached = nw.attach(gpt2, "warm+mi:1x2", "double", conditioner="still:max", encoder=bert)
assert nw.heads.head_spec(attached.next_word_head.config) == "warm:2+mi:1x2"
assert nw.conditioning.conditioner_spec(attached.conditioner.config) == "still:max"
found = nw.evaluate({{"systems": {{"a": [__file__]}}, "metrics": ["shouting"]}})
assert "shouting" in str(found.model_dump()), found
for room, name in (("heads", "warm"), ("objectives", "double"), ("conditioning", "still"), ("metrics", "shouting")):
    assert name in getattr(nw, room).registry.names()
"""
    path = compared.parent / "script.txt"
    path.write_text(script)
    run(path, path=installed)


def test_a_module_in_the_current_folder_is_found(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE / "dummy_parts", tmp_path / "dummy_parts")
    words = ["-P", "-m", "nextword", "--import", "dummy_parts", "list", "tasks"]  # -P: without the current folder
    assert "From module 'dummy_parts'." in run(*words, path=tmp_path / "nothing", cwd=tmp_path)


def test_a_module_that_is_nowhere_is_an_error(tmp_path: Path) -> None:
    refused = nextword("--import", "no_such.module", "list", "tasks", path=tmp_path, code=2)
    assert refused.startswith("error: --import no_such.module: no such module; ")


@pytest.mark.parametrize("given", ["own_head.py", "./own_head.py"])
def test_a_file_in_place_of_a_module_is_told_its_name(given: str, tmp_path: Path) -> None:
    (tmp_path / "own_head.py").write_text("")
    refused = nextword("--import", given, "list", "tasks", path=tmp_path, code=2)
    assert refused.strip().endswith(
        f"--import {given}: must be the name of a module, not its file; write --import own_head"
    )


@pytest.mark.parametrize("command", [["list", "heads"], ["check", "folder"]])
def test_import_after_the_command_says_where_it_stands(command: list[str], tmp_path: Path) -> None:
    refused = nextword(*command, "--import", "own_head", path=tmp_path, code=2)
    assert "Put it before the command: nextword --import MODULE COMMAND" in " ".join(refused.split())


LOADS = "import sys, dummy_parts, nextword as nw; nw.load(sys.argv[1]).save_pretrained(sys.argv[2])"


@pytest.mark.slow
def test_a_card_says_what_brings_the_head(compared: Path, installed: Path, tmp_path: Path) -> None:
    model = next(compared.glob("trained/*/model"))
    for name, path in {"package": installed, "module": PACKAGE}.items():
        run("-c", LOADS, model, tmp_path / name, path=path)
    card = (tmp_path / "package" / "README.md").read_text(encoding="utf-8")
    assert "`pip install nextword dummy-parts`" in card
    assert "import dummy_parts" not in card
    card = (tmp_path / "module" / "README.md").read_text(encoding="utf-8")
    assert "`nextword --import dummy_parts.models COMMAND`" in card
    assert "without importing nextword" not in card
    load, transformers = (block.partition("```")[0] for block in card.split("```python\n")[1:])
    run("-c", load, path=PACKAGE, cwd=tmp_path)
    assert transformers.startswith("import dummy_parts.models\nfrom transformers import")


BROKEN = "import no_such_library\n"


@pytest.mark.slow
def test_a_broken_package_is_named_and_harms_nobody_else(installed: Path, tmp_path: Path) -> None:
    install(tmp_path, "broken-parts", ["broken_module", "gone_module"])
    (tmp_path / "broken_module.py").write_text(BROKEN)
    both = Path(os.pathsep.join(map(str, (tmp_path, installed))))
    quiet = run("-c", "from nextword.evaluation.metrics import parse_metric; parse_metric('distinct:2')", path=both)
    assert quiet == ""
    told = run(
        "-c", "from nextword.evaluation.metrics import parse_metric; print(parse_metric('shouting').metric)", path=both
    )
    assert "shouting" in told.splitlines()
    (line,) = (line for line in told.splitlines() if "broken_module" in line)
    assert line.startswith("package 'broken-parts': its parts are left out, 'broken_module' cannot be imported")
    assert "No module named 'no_such_library'" in line
    listed = nextword("list", "metrics", path=both)
    assert "From package 'dummy-parts'." in listed
    assert "package 'broken-parts': its parts are not listed, 'gone_module' has no sources here" in listed


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> list[plugins.Plugin]:
    """The plug-ins of this process, which a test fills."""
    there: list[plugins.Plugin] = []
    monkeypatch.setattr(plugins, "plugins", lambda: there)
    monkeypatch.setattr(plugins, "_loaded", {})
    return there


def planted(monkeypatch: pytest.MonkeyPatch, name: str, registry: Registry[type], part: str) -> None:
    """A module whose import registers a part."""

    class Finder:
        def find_spec(self, fullname: str, path: object, target: object = None) -> object:
            if fullname != name:
                return None
            from importlib.machinery import ModuleSpec

            return ModuleSpec(name, self)

        def create_module(self, spec: object) -> None:
            return None

        def exec_module(self, module: ModuleType) -> None:
            registry.register(part)(type("Part", (), {"__module__": name}))

    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    monkeypatch.delitem(sys.modules, name, raising=False)


def test_they_are_imported_when_a_name_is_unknown(alone: list[plugins.Plugin], monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry[type]("animal")
    registry.register("cat")(type("Cat", (), {}))
    alone.append(plugins.Plugin("planted_animals", "zoo", "3"))
    planted(monkeypatch, "planted_animals", registry, "dog")
    assert registry.get("cat").__name__ == "Cat"
    assert plugins.loaded() == {}
    assert registry.get("dog").__name__ == "Part"
    assert plugins.loaded() == {"zoo": "3"}


def test_a_name_that_is_taken_is_left_to_us(
    alone: list[plugins.Plugin], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    registry = Registry[type]("animal")
    registry.register("cat")(type("Cat", (), {}))
    alone.append(plugins.Plugin("planted_animals", "zoo", "3"))
    planted(monkeypatch, "planted_animals", registry, "cat")
    with pytest.raises(UnknownNameError, match="unknown animal 'dog'"):
        registry.get("dog")
    assert "package 'zoo': its parts are left out" in caplog.text
    assert "animal 'cat': is " in caplog.text
    assert plugins.loaded() == {}
    with pytest.raises(UnknownNameError):
        registry.get("dog")
    assert caplog.text.count("zoo") == 1  # told once


def test_a_requested_module_that_breaks_is_an_error(
    alone: list[plugins.Plugin], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "broken_request.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(tmp_path)
    alone.append(plugins.Plugin("broken_request"))
    for _ in range(2):  # it was asked for, so it is said every time
        with pytest.raises(ValueError, match="broken_request"):
            Registry[type]("animal").names()


def test_records_know_a_requested_module_by_its_content(
    alone: list[plugins.Plugin], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    marks = []
    for name, content in {"first_own": "a = 1\n", "other_own": "a = 2\n", "third_own": "a = 1\n"}.items():
        (tmp_path / f"{name}.py").write_text(content)
        alone[:] = [plugins.Plugin(name)]
        plugins.load()
        marks.append(plugins.loaded()[name])
    assert marks[0] == marks[2] != marks[1]
    assert marks[0].startswith("sha256:")


def test_modules_are_found_without_importing_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    for file in ("outer/__init__.py", "outer/inner/__init__.py", "outer/inner/leaf.py", "outer/other.py"):
        (tmp_path / file).write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert [path.name for path in plugins.sources("outer.inner")] == ["__init__.py", "leaf.py"]
    assert [path.name for path in plugins.sources("outer.inner.leaf")] == ["leaf.py"]
    assert len(plugins.sources("outer")) == 4
    for nowhere in ("outer.nothing", "outer.other.deeper", "nothing.at.all", "outer..inner", ""):
        assert plugins.sources(nowhere) == []
        assert plugins.find_module(nowhere) is None
    assert "outer" not in sys.modules


def test_a_module_in_folders_that_are_no_packages_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plain" / "deeper").mkdir(parents=True)
    (tmp_path / "plain" / "deeper" / "leaf.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert [path.name for path in plugins.sources("plain.deeper.leaf")] == ["leaf.py"]
    assert plugins.find_module("plain.deeper.nothing") is None
    for name in ("plain", "plain.deeper"):
        sys.modules.pop(name, None)
