from __future__ import annotations

import io
import json
import sys
import tarfile
import unittest
from dataclasses import asdict
from pathlib import Path

import mixin_tests
import pytest
import transformers
from mixins import their_tests
from mixins.backbones import BACKBONES, BARE, HEADS, ModelTester, pairs
from mixins.derived import derived_class, head_of, name_of
from mixins.page import page
from mixins.verdicts import Difference, as_row, never_asked, read_differences, verdict

import nextword as nw

THEIR_MODEL_TESTS = """
from .exporters.test_export import ExportTesterMixin
from .generation.test_utils import GenerationTesterMixin

class ModelTesterMixin(ExportTesterMixin):
    def test_reads_its_inputs(self):
        config, inputs = self.model_tester.prepare_config_and_inputs_for_common()
        for model_class in self.all_model_classes:
            logits = model_class(config).eval()(**inputs).logits
            self.assertEqual(logits.shape[:2], (self.model_tester.batch_size, self.model_tester.seq_length))

    def test_wants_a_model_of_transformers(self):
        for part in ("one", "two", "three"):
            with self.subTest(part):
                self.assertFalse(part == "two" and "NextWord" in self.all_model_classes[0].__name__, "it is ours")

    def test_is_skipped(self):
        self.skipTest("no accelerator")
"""
THEIR_GENERATION_TESTS = """
class GenerationTesterMixin:
    def test_generates(self):
        config, inputs = self.model_tester.prepare_config_and_inputs_for_common()
        model = self.all_model_classes[0](config).eval()
        assert model.generate(inputs["input_ids"][:1], max_new_tokens=2, min_new_tokens=2).shape[1] >= 3
"""


def written(root: Path, *, generation: bool = False) -> Path:
    (root / "tests" / "generation").mkdir(parents=True)
    (root / "tests" / "test_modeling_common.py").write_text(THEIR_MODEL_TESTS, encoding="utf-8")
    if generation:
        (root / "tests" / "generation" / "test_utils.py").write_text(THEIR_GENERATION_TESTS, encoding="utf-8")
    return root


@pytest.fixture
def imported():
    """Reads the mixins of a folder, and forgets them afterwards."""
    yield their_tests.mixins
    for name in [name for name in sys.modules if name.partition(".")[0] == their_tests.PACKAGE]:
        del sys.modules[name]


def run(test_class):
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(test_class).run(result)
    return result


# -- deriving


@pytest.mark.parametrize(("backbone", "head"), [("gpt2", "cache"), ("t5", "f2"), ("qwen3_next", BARE)])
def test_their_tests_run_on_our_model(tmp_path, imported, backbone, head):
    mixins = imported(written(tmp_path, generation=True))
    assert list(mixins) == ["ModelTesterMixin", "GenerationTesterMixin"]
    result = run(derived_class(backbone, head, mixins))
    assert result.testsRun == 4
    assert not result.errors
    assert [said.splitlines()[-1] for _, said in result.failures] == (
        [] if head == BARE else ["AssertionError: True is not false : it is ours"]
    )


def test_what_a_distribution_lacks_is_stood_in_for(tmp_path, imported):
    mixins = imported(written(tmp_path))
    assert list(mixins) == ["ModelTesterMixin"] == their_tests.names_there(tmp_path)
    assert run(derived_class("gpt2", BARE, mixins)).testsRun == 3


def test_every_pair_has_a_configuration_with_its_head():
    assert {head_of(name_of(*pair)) for pair in pairs()} == set(pairs())
    for backbone, head in pairs():
        config = ModelTester(backbone, head).get_config()
        wrapped = getattr(config, "head", None)
        assert (wrapped is None) == (head == BARE)
        if head not in (BARE, "f2"):
            assert wrapped == nw.heads.parse_head(head).model_dump()
        elif head == "f2":
            assert wrapped["head"] == "f2"


@pytest.mark.slow
def test_one_class_in_a_process_of_its_own(tmp_path):
    sources = written(tmp_path)
    outcomes = mixin_tests.outcomes_of("gpt2", "softmax", sources, 300)
    assert {name: outcome for name, (outcome, _) in outcomes.items()} == {
        "test_reads_its_inputs": "passed", "test_wants_a_model_of_transformers": "failed", "test_is_skipped": "skipped",
    }  # fmt: skip
    assert outcomes["test_wants_a_model_of_transformers"][1] == "AssertionError: True is not false : it is ours"
    assert outcomes["test_is_skipped"][1] == "Skipped: no accelerator"
    (sources / "tests" / "test_modeling_common.py").write_text("1 / 0", encoding="utf-8")
    with pytest.raises(RuntimeError, match=r"gpt2 with softmax: exit code 1\n(.|\n)*ZeroDivisionError"):
        mixin_tests.outcomes_of("gpt2", "softmax", sources, 300)


# -- where they come from


def test_a_folder_without_tests_is_refused(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"tests/test_modeling_common\.py"):
        their_tests.folder(tmp_path)
    monkeypatch.setenv(their_tests.GIVEN, str(written(tmp_path)))
    assert their_tests.folder() == tmp_path


def test_the_source_distribution_is_fetched_once_and_only_its_tests_are_kept(tmp_path, monkeypatch):
    commands = []

    def download(command, check):
        commands.append(command)
        name = f"transformers-{transformers.__version__}"
        with tarfile.open(Path(command[command.index("-d") + 1]) / f"{name}.tar.gz", "w:gz") as archive:
            for path in ("tests/test_modeling_common.py", "src/transformers/__init__.py"):
                member = tarfile.TarInfo(f"{name}/{path}")
                member.size = 1
                archive.addfile(member, io.BytesIO(b"1"))

    monkeypatch.setattr(their_tests.subprocess, "run", download)
    into = tmp_path / "cache" / "transformers"
    their_tests.fetch(into)
    their_tests.fetch(into)
    assert len(commands) == 1
    assert commands[0][-1] == f"transformers=={transformers.__version__}"
    assert [path.name for path in into.rglob("*.py")] == ["test_modeling_common.py"]
    assert [path.name for path in into.parent.iterdir()] == ["transformers"]


# -- what became of them

BARE_OUTCOMES = {"a": ("passed", ""), "b": ("passed", ""), "c": ("passed", "")} | {
    "d": ("failed", "x"),
    "e": ("skipped", "x"),
}


def held(own, *listed):
    return verdict("gpt2", "pg", BARE_OUTCOMES, {**BARE_OUTCOMES, **own}, listed)


def test_only_what_the_bare_model_passes_is_asked():
    found = held({"d": ("passed", ""), "e": ("failed", "y")})
    assert (found.bare_passed, found.passed, found.unexpected, found.stale) == (3, 3, {}, [])


def test_a_difference_is_unexpected_unless_it_is_listed_for_this_model_and_head():
    own = {"a": ("failed", "no"), "b": ("skipped", "why")}
    found = held(own, Difference("a", "because", heads=["pg", "ps"]), Difference("b", "because", backbones=["t5"]))
    assert (found.passed, found.by_design) == (1, {"a": "because"})
    assert found.unexpected == {"b": "skipped: why"}
    assert verdict("gpt2", "pg", BARE_OUTCOMES, {}, []).unexpected["a"] == "missing: no such test"


def test_what_is_listed_and_passes_is_stale():
    found = held({}, Difference("a", "because"), Difference("b", "because", heads=["cache"]))
    assert (found.passed, found.stale) == (3, ["a (* with *)"])


def test_what_no_bare_model_passes_is_not_to_be_listed():
    bare = {"gpt2": BARE_OUTCOMES, "t5": {"d": ("passed", "")}}
    listed = [Difference(test, "x") for test in ("a", "d", "f")] + [Difference("d", "x", backbones=["gpt2"])]
    assert never_asked(bare, listed) == ["f (* with *)", "d (gpt2 with *)"]


@pytest.mark.parametrize(
    ("own", "listed", "ends"),
    [
        ({}, [], None),
        ({"a": ("failed", "no")}, [], "agree with this list: 1$"),
        ({"a": ("failed", "no")}, [Difference("a", "because")], None),
        ({}, [Difference("a", "because")], "agree with this list: 1$"),
    ],
)
def test_the_command_fails_where_the_list_is_not_true(tmp_path, monkeypatch, capsys, own, listed, ends):
    def outcomes(backbone, head, sources, seconds):
        return {**BARE_OUTCOMES, **({} if head == BARE else own)}

    monkeypatch.setattr(mixin_tests, "outcomes_of", outcomes)
    monkeypatch.setattr(mixin_tests, "read_differences", lambda: listed)
    record, text = tmp_path / "record.json", tmp_path / "page.md"
    command = ["--tests", str(written(tmp_path / "theirs")), "--record", str(record), "--write", str(text)]
    for chosen in (["--backbone", "gpt2", "--head", "pg"], []):
        if ends is None:
            mixin_tests.main([*command, *chosen])
        else:
            with pytest.raises(SystemExit, match=ends if chosen else "do not agree with this list"):
                mixin_tests.main([*command, *chosen])
        assert "gpt2 with pg" in capsys.readouterr().out
        assert record.exists() == (not chosen)
    rows = json.loads(record.read_text(encoding="utf-8"))["rows"]
    assert [(row["backbone"], row["head"]) for row in rows] == [pair for pair in pairs() if pair[1] != BARE]
    mixin_tests.main([*command, "--check"])
    text.write_text("older", encoding="utf-8")
    with pytest.raises(SystemExit, match="is older than the record"):
        mixin_tests.main([*command, "--check"])


# -- the list, the record and the page


def test_the_list_names_what_there_is_and_says_why():
    listed = read_differences()
    heads = {head for named in HEADS.values() for head in named}
    for one in listed:
        assert one.why == one.why.strip(" .")
        assert len(one.why) > 30
        assert set(one.backbones) <= {"*", *BACKBONES}
        assert set(one.heads) <= {"*", *heads}
    names = [(one.test, *one.backbones) for one in listed]
    assert len(set(names)) == len(names)


def test_the_committed_record_is_of_the_committed_list_and_nothing_in_it_is_unexpected():
    record = json.loads(mixin_tests.RECORD.read_text(encoding="utf-8"))
    assert record["differences"] == json.loads(json.dumps([asdict(one) for one in read_differences()]))
    assert [(row["backbone"], row["head"]) for row in record["rows"]] == [one for one in pairs() if one[1] != BARE]
    for row in record["rows"]:
        assert row["unexpected"] == {}
        assert row["bare_passed"] == row["passed"] + len(row["by_design"])
    mixin_tests.main(["--check"])


def test_the_page_shows_what_is_unexpected():
    found = held({"a": ("failed", "no"), "b": ("failed", "no")}, Difference("a", "because", heads=["pg"]))
    versions = {"transformers": "5", "torch": "2", "nextword": "1", "mixins": ["ModelTesterMixin"]}
    listed = [asdict(Difference("a", "because", heads=["pg"]))]
    text = page(versions | {"rows": [as_row(found)], "differences": listed})
    assert "| gpt2 | `pg` | 3 | 1 | 1 | 1 |" in text
    assert "- `a`, `pg`: because." in text
    assert "- gpt2, `pg`: `b` (failed: no)" in text
