from __future__ import annotations

import sys

import pytest
from typer.testing import CliRunner

from nextword.cli import app
from nextword.cli.list import first_sentence
from nextword.results.records import Results

SMALL = [
    "task.start.n_embd=16", "task.start.n_layer=1", "task.start.documents=100", "start.training.steps=2",
    "task.train_prompts=8", "task.validation_prompts=4", "task.test_prompts=6", "task.rank_rows=20", "training.steps=2",
]  # fmt: skip
COMPARE = ["compare", "--task", "ambiguous", "--head", "softmax", "--head", "cache/histalign"]


def run(*words, width=200):
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": str(width), "NEXTWORD_DEBUG": "0"})


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared") / "out"
    return folder, run(*COMPARE, "--out", folder, *SMALL)


def test_version():
    import nextword

    assert run("--version").output == f"nextword {nextword.__version__}\n"


def test_no_arguments_show_the_help():
    assert "quickstart" in run().output


def test_compare_writes_results_and_report_and_prints_both(compared):
    folder, done = compared
    assert done.exit_code == 0, done.output
    results = Results.load(folder / "results.json")
    assert [(run.head, run.objective) for run in results.runs] == [("softmax", "mle"), ("cache", "histalign")]
    assert "cache/histalign" in done.output
    assert f"Report: {folder / 'report.html'}" in done.output
    assert "<html" in (folder / "report.html").read_text()


def test_compare_without_a_terminal_prints_a_line_for_each_stage(compared):
    lines = compared[1].output.splitlines()
    assert any(line.startswith("start: training, ") for line in lines)
    assert any(line.startswith("softmax, seed 0: training, ") for line in lines)
    assert any(line.startswith("[2/2] cache/histalign, seed 0: ") for line in lines)


@pytest.mark.slow
def test_the_same_command_again_only_prints(compared):
    again = run(*COMPARE, "--out", compared[0], *SMALL)
    assert again.exit_code == 0
    assert "2 runs, 2 finished before" in again.output
    assert "training, " not in again.output


def test_another_comparison_in_the_same_folder_is_an_error(compared):
    refused = run(*COMPARE, "--out", compared[0], *SMALL, "start.seed=5")
    assert refused.exit_code == 2
    assert "start.seed: 0 there, 5 asked for" in refused.output
    assert "--out" in refused.output
    assert "Traceback" not in refused.output


@pytest.mark.slow
def test_report_is_written_again(compared, tmp_path):
    (compared[0] / "report.html").unlink()
    done = run("report", compared[0])
    assert done.exit_code == 0, done.output
    assert (compared[0] / "report.html").exists()
    assert run("report", compared[0] / "results.json", "--out", tmp_path / "other.html").exit_code == 0
    assert (tmp_path / "other.html").exists()


def test_report_of_nothing_is_an_error(tmp_path):
    refused = run("report", tmp_path)
    assert refused.exit_code == 2
    assert refused.output.startswith("error: ")
    assert "results.json does not exist" in refused.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare"], "nothing to compare: give a recipe"),
        (["compare", "quickstrat"], "Did you mean 'quickstart'"),
        (["compare", "quickstart", "other"], "'other': only the first word names a recipe"),
        (["compare", "--task", "lm", "--head", "cache", "--data", "b.txt"], "task.data: 'b.txt' does not exist"),
        (
            ["compare", "--task", "lm", "--head", "cache", "block=64"],
            "block: is a setting of the task; give task.block=64",
        ),
        (["compare", "quickstart", "sedes=[1]"], "sedes: unknown key. Did you mean 'seeds'?"),
        (["compare", "--task", "ambiguous", "--head", "cache", "--model", "./nothing"], "./nothing: no such folder"),
        (["compare", "--task", "ambigous", "--head", "softmax"], "unknown task 'ambigous'. Did you mean 'ambiguous'?"),
        (["quickstart", "task.train_promts=3"], "task.train_promts: unknown key. Did you mean 'train_prompts'?"),
        (
            ["compare", "--task", "lm", "--head", "softmax"],
            "task.data: missing; give task.data=VALUE. A folder with train.txt",
        ),
        (["quickstart", "training.steps=0"], "training.steps: must be more than 0 (0 given)"),
    ],
)
def test_mistakes_are_one_red_line_and_code_2(words, message, tmp_path):
    refused = run(*words, "--out", tmp_path / "out")
    assert refused.exit_code == 2
    assert refused.output.startswith("error: ")
    assert message in refused.output
    assert not (tmp_path / "out").exists()


def test_a_start_model_that_is_nowhere_is_named(tmp_path, monkeypatch):
    import transformers

    def unreachable(name):
        raise OSError("We couldn't connect.\nCheck your connection.")

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", unreachable)
    refused = run(*COMPARE, "--out", tmp_path, *SMALL, "start.model=gtp2")
    assert refused.exit_code == 2
    assert "start.model: 'gtp2' is neither a folder" in refused.output
    assert "(We couldn't connect.)" in refused.output


def test_debug_keeps_the_traceback(monkeypatch):
    refused = CliRunner().invoke(app, ["compare", "quickstrat"], env={"NEXTWORD_DEBUG": "1"})
    assert isinstance(refused.exception, ValueError)


@pytest.mark.slow
def test_ctrl_c_says_what_is_finished_and_how_to_go_on(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("nextword.experiments.comparison.engines.engine.carry_out", interrupted)
    monkeypatch.setattr(sys, "argv", ["nextword", "compare", "quickstart", "a b=1"])
    stopped = run(*COMPARE, "--out", tmp_path, *SMALL)
    assert stopped.exit_code == 130
    assert "interrupted: 0 of 2 runs are finished" in stopped.output
    assert "To resume: nextword compare quickstart 'a b=1'" in stopped.output


@pytest.mark.slow
def test_check_passes_a_good_model(compared):
    model = next(compared[0].glob("trained/cache-histalign-seed0/model"))
    done = run("check", model)
    assert done.exit_code == 0, done.output
    assert done.output.count("passed") > 10
    assert "source padding: not checked, a decoder-only model has no source" in done.output


def checked(monkeypatch, *rows):
    from nextword.checking import checker
    from nextword.checking.findings import CheckReport

    monkeypatch.setattr(checker, "check_as_wanted", lambda *_: CheckReport("GPT2LMHeadModel", "cache", "float32", rows))


def test_check_fails_with_code_1_and_explains(compared, monkeypatch):
    from nextword.checking.findings import CheckRow

    good = CheckRow("finite", "no NaN", 0.0, 1e-5, "joint", "Look there.")
    bad = CheckRow("sums to one", "they add up to 1", 1.0, 1e-5, "joint", "Look at the sum.")
    checked(monkeypatch, good, bad)
    model = next(compared[0].glob("trained/softmax-mle-seed0/model"))
    failed = run("check", model)
    assert failed.exit_code == 1
    assert "sums to one: deviation 1, at most 1e-05 allowed (joint). Look at the sum." in failed.output
    assert "they add up to 1" in failed.output
    assert "no NaN" not in failed.output
    assert "no NaN" in run("check", model, "--verbose").output


@pytest.mark.slow
def test_check_keeps_a_line_a_property_on_a_usual_terminal(compared):
    model = next(compared[0].glob("trained/softmax-mle-seed0/model"))
    lines = [line.rstrip() for line in run("check", model, width=80).output.splitlines()]
    begin = next(place for place, line in enumerate(lines) if line.lstrip().startswith("─")) + 1
    rows = lines[begin : lines.index("", begin)]
    assert len(rows) > 10
    assert all(any(verdict in row for verdict in ("passed", "not checked", "remark")) for row in rows)


def test_check_audits_a_plain_model_and_writes_record_and_page(tmp_path):
    from tests.helpers.families import tiny

    tiny("gpt2").save_pretrained(tmp_path / "model")
    done = run("check", tmp_path / "model", "--out", tmp_path / "audit")
    assert done.exit_code == 0, done.output
    assert "is missed with probability 0.001" in " ".join(done.output.split())
    assert {file.name for file in (tmp_path / "audit").iterdir()} == {"check.json", "check.html"}
    assert not (tmp_path / "model" / "check.json").exists()


def test_check_asks_the_tokenizer_that_was_saved_with_a_model(tmp_path):
    from tests.helpers.families import tiny
    from tests.helpers.word_tokenizer import word_tokenizer

    tiny("gpt2").save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    done = run("check", tmp_path)
    said = " ".join(done.output.split())
    assert done.exit_code == 0, done.output
    assert "are the same tokens" in said
    assert "(matters for bits per byte only)" in said


def test_check_wants_a_model_or_arguments_of_lm_eval():
    for words in ([], ["model", "--lm-eval", "pretrained=model"]):
        refused = run("check", *words)
        assert refused.exit_code == 2
        assert "must be given either MODEL or --lm-eval" in " ".join(refused.output.split())


@pytest.mark.parametrize(("likely", "code"), [(0.25, 0), (0.3, 1)])
def test_check_audits_what_lm_eval_would_score(likely, code, monkeypatch):
    """A model of lm-eval in place of the package: each of four tokens has the same probability."""
    import math
    import sys
    from importlib.machinery import ModuleSpec
    from types import ModuleType, SimpleNamespace

    opened = []

    class Fake:
        model = SimpleNamespace(config=SimpleNamespace(get_text_config=lambda decoder: SimpleNamespace(vocab_size=4)))

        @classmethod
        def create_from_arg_string(cls, given, settings):
            opened.append((given, settings["batch_size"]))
            return cls()

        def _loglikelihood_tokens(self, requests, disable_tqdm):
            return [(len(continuation) * math.log(likely), False) for _, _, continuation in requests]

    for name in ("lm_eval", "lm_eval.api", "lm_eval.api.registry"):
        module = ModuleType(name)
        module.__spec__, module.get_model = ModuleSpec(name, None), {"fake": Fake}.__getitem__
        monkeypatch.setitem(sys.modules, name, module)
    done = run("check", "--lm-eval", "fake:pretrained=folder,dtype=float32")
    said = " ".join(done.output.split())
    assert done.exit_code == code, done.output
    assert opened == [("pretrained=folder,dtype=float32", 8)]
    assert ("assigns 1.2 in total" in said) == bool(code)
    assert "totals passed" in said


def test_check_of_a_missing_folder_is_an_error(tmp_path):
    refused = run("check", tmp_path / "nothing")
    assert refused.exit_code == 2
    assert refused.output.startswith("error: ")


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("heads", ["softmax", "cache", "pg", "Pages are in docs/heads, by name."]),
        ("heads", ["+c ", "+r:K", "softmax+cpr:20,100+mi", " cpr.md", "+proj", "softmax."]),
        ("objectives", ["mle", "histalign"]),
        ("conditioners", ["lmh:published", "dau", "bergpt", "Pages are in docs/conditioners, by name."]),
        ("metrics", ["bleu-logicnlg", "rouge:1,2,l", "Page: docs/metrics/index.md"]),
        ("tasks", ["ambiguous", "lm", "seq2seq", "Pages are in docs/tasks, by name."]),
        ("recipes", ["quickstart", "wikitext2-heads", "seq2seq", "Page: docs/compare.md"]),
    ],
)
@pytest.mark.parametrize("width", [80, 200])
def test_list_shows_what_is_registered_and_breaks_no_name(kind, names, width):
    shown = run("list", kind, width=width)
    assert shown.exit_code == 0
    for name in names:
        assert name in shown.output
    assert all(len(line) <= width for line in shown.output.splitlines())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Adds ``N`` cache\nentries. More.", "Adds N cache entries."),
        ("Where p = 0.5 it stops\n\nFormula.", "Where p = 0.5 it stops"),
        ("", ""),
    ],
)
def test_first_sentence(text, sentence):
    assert first_sentence(text) == sentence


@pytest.mark.slow
def test_failed_runs_have_an_exit_code_and_a_line_of_their_own(tmp_path):
    broken = 'methods=[{head="softmax", label="broken", training={learning_rate=1e30}}, "mos:2"]'
    small = [word for word in SMALL if not word.startswith("training.steps")]
    done = run("quickstart", "--out", tmp_path, *small, broken, "seeds=[0]", "training.steps=3")
    assert done.exit_code == 3, done.output
    assert "failed: broken, seed 0: diverged at step 2: the loss is" in done.output
    assert "[1/2] mos:2, seed 0: " in done.output
    assert "To try again: " in done.output
    page = (tmp_path / "report.html").read_text()
    assert "Without a result" in page
    assert "diverged at step 2" in page


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x00\xff", "recipe.toml is not a recipe: a recipe is TOML, which is text in UTF-8"),
        (b"plain words", "recipe.toml is not a recipe: it is not TOML"),
        (b'methodz = ["softmax"]\ntask = "ambiguous"', "methodz: unknown key. Did you mean 'methods'?"),
        (b'methods = ["softmax"]', "task: missing"),
        (b'methods = ["softmax"]\ntask = "ambiguous"\nseeds = [-1]', "seeds.0: must be at least 0 (-1 given)"),
    ],
)
def test_mistakes_in_a_recipe_are_named(content, message, tmp_path):
    (tmp_path / "recipe.toml").write_bytes(content)
    refused = run("compare", tmp_path / "recipe.toml", "--out", tmp_path / "out")
    assert (refused.exit_code, message in refused.output) == (2, True), refused.output
    assert not (tmp_path / "out").exists()
