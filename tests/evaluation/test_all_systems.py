from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from scipy import stats

import nextword as nw
from nextword.evaluation.metrics import registry
from nextword.evaluation.metrics.distinct import distinct
from nextword.experiments.tasks.tokenizers import for_transformers, word_tokenizer
from nextword.functional.frequency import TokenCounts
from nextword.results.records import EvaluationResults


def rows(system: str, count: int = 12, words: int = 9) -> list[dict[str, Any]]:
    made = []
    for number in range(count):
        own, common = random.Random(f"{system} {number}"), random.Random(number)
        made.append(
            {
                "prompt": f"prompt {number}",
                "text": " ".join(own.choice("abcdefghijkl") for _ in range(words)),
                "references": [" ".join(common.choice("abcdefghijkl") for _ in range(9))],
            }
        )
    return made


def written(folder: Path, name: str, content: list[dict[str, Any]]) -> str:
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in content), encoding="utf-8")
    return str(path)


@pytest.fixture
def two(tmp_path: Path) -> dict[str, list[str]]:
    return {name: [written(tmp_path, name, rows(name))] for name in ("one", "two")}


def test_values_are_those_of_the_functions(two: dict[str, list[str]]) -> None:
    found = nw.evaluate({"systems": two, "metrics": ["distinct:2"]})
    texts = [[ord(word) for word in row["text"].split()] for row in rows("one")]
    value = found.systems[0].values["distinct-2"]
    assert value.value == pytest.approx(distinct(texts, 2).mean(), abs=1e-15)
    assert value.n == 12
    assert value.low is not None
    assert value.high is not None
    assert value.low <= value.value <= value.high


@pytest.mark.slow
def test_the_human_row_is_a_system_that_wrote_the_references(tmp_path: Path, two: dict[str, list[str]]) -> None:
    humans = [{**row, "text": row["references"][0]} for row in rows("one")]
    file = written(tmp_path, "people", humans)
    row = nw.evaluate({"systems": {"one": two["one"]}}).human
    as_system = nw.evaluate({"systems": {"people": [file]}}).systems[0]
    assert row is not None
    assert row.values.keys() == as_system.values.keys()
    assert len(row.values) > 20
    for key, value in as_system.values.items():
        assert row.values[key].value == pytest.approx(value.value, abs=1e-12), key


@pytest.mark.slow
def test_all_measures_what_the_samples_have_fields_for(two: dict[str, list[str]]) -> None:
    found = nw.evaluate({"systems": {"one": two["one"]}})
    measured = {entry["metric"] for entry in found.settings["metrics"]}
    assert {"distinct", "self-bleu", "rouge", "unigram-kl"} <= measured
    assert "target_token_ids" in found.left_out["token-repetition"]
    assert measured | found.left_out.keys() == set(registry.names())


def test_seeds_are_averaged_and_have_students_interval(tmp_path: Path) -> None:
    files = [written(tmp_path, f"s{seed}", rows("one", words=6 + seed)) for seed in range(3)]
    found = nw.evaluate({"systems": {"one": files}, "metrics": ["distinct:1"]})
    single = [nw.evaluate({"systems": {"x": [file]}, "metrics": ["distinct:1"]}).systems[0].values for file in files]
    values = [one["distinct-1"].value for one in single]
    mean = found.systems[0].values["distinct-1"]
    assert mean.value == pytest.approx(np.mean(values), abs=1e-15)
    low, high = stats.t.interval(0.95, 2, loc=np.mean(values), scale=stats.sem(values))
    assert (mean.low, mean.high) == pytest.approx((low, high), abs=1e-12)


def test_systems_are_tested_on_the_same_prompts(two: dict[str, list[str]]) -> None:
    found = nw.evaluate({"systems": two, "metrics": ["distinct:1,2", "unigram-kl"]})
    assert [test.measure for test in found.tests] == ["distinct-1", "distinct-2"]  # a divergence has no samples
    a, b = (distinct([[ord(w) for w in row["text"].split()] for row in rows(name)], 1) for name in two)
    assert found.tests[0].difference == pytest.approx(a.mean() - b.mean(), abs=1e-15)
    assert all(test.p_holm >= test.p_permutation for test in found.tests)
    assert found.wins is not None
    assert {place.name for place in found.wins.ranking} == {"one", "two"}


def test_different_prompts_or_counts_are_refused_unless_unpaired(tmp_path: Path, two: dict[str, list[str]]) -> None:
    short = {**two, "three": [written(tmp_path, "three", rows("three", 11))]}
    with pytest.raises(ValueError, match=r"three\.jsonl"):
        nw.evaluate({"systems": short, "metrics": ["distinct"]})
    found = nw.evaluate({"systems": short, "metrics": ["distinct"], "paired": False})
    assert not found.tests
    assert found.untested is not None
    moved = rows("three")
    moved[3], moved[4] = moved[4], moved[3]
    where = r"three\.jsonl, line 4: prompt, references must be the same as in .*one\.jsonl, line 4 \(the same examples"
    with pytest.raises(ValueError, match=where):
        nw.evaluate({"systems": {**two, "three": [written(tmp_path, "three", moved)]}, "metrics": ["distinct"]})


def test_files_of_other_counts_say_how_they_were_cut(tmp_path: Path) -> None:
    long, gap = tmp_path / "xl.txt", tmp_path / "gap.txt"
    long.write_text("a b c\n" * 60 + "\n\n", encoding="utf-8")
    gap.write_text("a b c\n" * 30 + "\n" + "a b c\n" * 29, encoding="utf-8")
    blocks = r"gap.txt has 2 texts \(split at blank lines; plain_text='lines': one per line\), \S*xl.txt has 60 texts\."
    with pytest.raises(ValueError, match=blocks):
        nw.evaluate({"xl": long, "gap": gap}, metrics="distinct")
    assert (
        len(nw.evaluate({"xl": long, "gap": gap}, metrics="distinct", plain_text="lines", resamples=100).systems) == 2
    )


def test_undefined_values_are_told_not_dropped(tmp_path: Path) -> None:
    file = written(tmp_path, "single", rows("one", 1))
    found = nw.evaluate({"systems": {"one": [file]}, "metrics": ["self-bleu", "distinct"]})
    assert found.systems[0].files[0].undefined.keys() == {"self-bleu"}
    assert "distinct-1" in found.systems[0].values
    assert found.systems[0].values["distinct-1"].low is None  # one sample has no interval


def test_empty_texts_are_wrong_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that writes nothing half the time is right half the time, whoever judges."""
    (tmp_path / "yes.py").write_text("def parse(table, text):\n    return True\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    table = {"header": ["a"], "rows": [["1"]]}
    full = [{**row, "table": table} for row in rows("one")]
    half = [{**row, "text": ""} if number % 2 else row for number, row in enumerate(full)]
    systems = {name: [written(tmp_path, name, content)] for name, content in {"full": full, "half": half}.items()}
    found = nw.evaluate({"systems": systems, "metrics": [{"metric": "sp", "parser": "yes:parse"}]})
    values = {system.name: system.values["sp"] for system in found.systems}
    assert (values["full"].value, values["full"].n, values["full"].note) == (1.0, 12, None)
    assert (values["half"].value, values["half"].n) == (0.5, 12)
    assert values["half"].note == "empty texts, which count as wrong: 6 of 12"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metrics": ["distinkt"]}, "unknown metric 'distinkt'. Did you mean 'distinct'"),
        ({"metrics": ["distinct", "distinct:2"]}, "'distinct' must be given once"),
        ({"metrics": ["distinct:0"]}, "whole numbers of 1 or more"),
        ({"metrics": [{"metric": "distinct", "m": [1]}]}, "distinct.m: unknown key"),
        (
            {"metrics": ["likelihood"]},
            "line 1: no 'log_probs', which likelihood needs. The line has: prompt",
        ),
        ({"systems": {}}, "systems"),
        ({"systems": {"a": []}}, "'a': must have at least one samples file"),
        ({"systems": {"human": ["x"]}}, "this name is reserved for the references"),
        (
            {"wins": ["distinct-9"], "metrics": ["distinct"]},
            "wins: distinct-9 must be computed values; computed: distinct-1",
        ),
        ({"tokenizer": "no/such/folder/at/all", "metrics": ["distinct"]}, "tokenizer: cannot load"),
        ({"meterics": ["distinct"]}, "meterics: unknown key. Did you mean 'metrics'"),
    ],
)
def test_mistakes(change: dict[str, Any], message: str, two: dict[str, list[str]]) -> None:
    with pytest.raises(ValueError, match=message):
        nw.evaluate({"systems": two, **change})


def test_a_line_without_a_field_is_named(tmp_path: Path) -> None:
    content = rows("one")
    content[5]["refrences"] = content[5].pop("references")
    file = written(tmp_path, "one", content)
    with pytest.raises(ValueError, match="'references'"):
        nw.evaluate({"systems": {"one": [file]}, "metrics": ["rouge"]})


def test_tokens_of_a_tokenizer_are_counted(tmp_path: Path, two: dict[str, list[str]]) -> None:
    vocabulary = {word: number for number, word in enumerate(["<eos>", "<pad>", "<unk>", *"abcdefghijkl"])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    for_transformers(made, "<unk>").save_pretrained(tmp_path / "tiny")
    by_words = nw.evaluate({"systems": two, "metrics": ["distinct"]})
    by_tokens = nw.evaluate({"systems": two, "metrics": ["distinct"], "tokenizer": str(tmp_path / "tiny")})
    assert (by_words.unit, by_tokens.unit) == ("words", "tokens of tiny")
    for a, b in zip(by_words.systems, by_tokens.systems, strict=True):
        assert {k: v.value for k, v in a.values.items()} == {k: v.value for k, v in b.values.items()}


def test_given_ids_are_counted_and_mixed_samples_refused(tmp_path: Path) -> None:
    content = [
        {"token_ids": [1, 2, 1], "reference_token_ids": [[1, 2, 3]]},
        {"token_ids": [4, 4], "reference_token_ids": [[4]]},
    ]
    found = nw.evaluate({"systems": {"a": [written(tmp_path, "a", content)]}, "metrics": ["distinct:1"]})
    assert found.unit == "token ids of the samples"
    assert found.systems[0].values["distinct-1"].value == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert found.human is not None
    assert found.human.values["distinct-1"].value == 1.0
    mixed = [content[0], {"text": "no ids", "reference_token_ids": [[1]]}]
    with pytest.raises(ValueError, match=r"b\.jsonl, line"):
        nw.evaluate({"systems": {"a": [written(tmp_path, "b", mixed)]}, "metrics": ["distinct:1"]})


@pytest.mark.slow
def test_results_are_kept_whole(tmp_path: Path, two: dict[str, list[str]]) -> None:
    found = nw.evaluate({"systems": two})
    found.save(tmp_path / "results.json")
    assert EvaluationResults.load(tmp_path / "results.json") == found


@pytest.mark.slow
def test_the_same_evaluation_gives_the_same_record(two: dict[str, list[str]]) -> None:
    first, second = (nw.evaluate({"systems": two}) for _ in range(2))
    assert first.model_dump(exclude={"environment"}) == second.model_dump(exclude={"environment"})


def test_a_unit_does_not_depend_on_which_file_comes_first(tmp_path: Path) -> None:
    words, ids = {"text": "x y z", "reference": "x"}, {"text": "q q q", "token_ids": [0, 1, 2], "reference": "x"}
    files = {"a": [written(tmp_path, "a", [words])], "b": [written(tmp_path, "b", [ids])]}
    for systems in (files, dict(reversed(files.items()))):
        with pytest.raises(ValueError, match=r"line 1: must have (no token ids|token ids for every text)"):
            nw.evaluate({"systems": systems, "metrics": ["distinct:1", "ms-jaccard:1"]})
    with pytest.raises(ValueError, match=r"c\.jsonl, line"):
        nw.evaluate({"systems": {"c": [written(tmp_path, "c", [words, ids])]}, "metrics": ["uniq-seq"]})


def test_special_ids_end_a_text(tmp_path: Path) -> None:
    content = [{"token_ids": [1, 2, 0, 0], "reference_token_ids": [[3, 0]]}]
    file = written(tmp_path, "a", content)
    raw = nw.evaluate({"systems": {"a": [file]}, "metrics": ["uniq-seq"]})
    cut = nw.evaluate({"systems": {"a": [file]}, "metrics": ["uniq-seq"], "special": [0]})
    assert [one.systems[0].values["uniq-seq"].value for one in (raw, cut)] == [3, 2]
    with pytest.raises(ValueError, match="special: must be left out"):
        nw.evaluate({"systems": {"a": [file]}, "tokenizer": "x", "special": [0]})


def test_seeds_of_one_file_are_refused(two: dict[str, list[str]]) -> None:
    with pytest.raises(ValueError, match="different"):
        nw.evaluate({"systems": {"one": two["one"] * 2}, "metrics": ["distinct"]})


def test_the_number_of_seeds_does_not_change_what_a_prompt_weighs(tmp_path: Path) -> None:
    def scored(name: str, shift: float, seed: int) -> str:
        rng = np.random.default_rng(seed)
        hard = np.random.default_rng(0).normal(5, 3, 40)  # prompts differ far more than systems
        rows = [{"id": i, "log_probs": [-abs(h) - shift - abs(rng.normal(0, 0.1))]} for i, h in enumerate(hard)]
        return written(tmp_path, f"{name}{seed}", rows)

    better = [scored("better", 0.0, seed) for seed in (1, 2, 3)]
    worse = [scored("worse", 1.0, 4)]
    found = nw.evaluate({"systems": {"better": better, "worse": worse}, "metrics": ["likelihood"]})
    (test,) = [one for one in found.tests if one.measure == "nll"]
    assert test.difference == pytest.approx(-1.0, abs=0.1)
    assert test.p_permutation < 0.001


def test_a_failed_seed_has_no_mean_and_does_not_win(tmp_path: Path) -> None:
    def scored(name: str, *values: float) -> str:
        return written(tmp_path, name, [{"id": i, "log_probs": [v]} for i, v in enumerate(values)])

    a = [scored("a1", -1.0, -2.0), scored("a2", -1.0, -np.inf)]
    b = [scored("b1", -1.7, -1.8), scored("b2", -1.8, -1.7)]
    found = nw.evaluate({"systems": {"a": a, "b": b}, "metrics": ["likelihood"]})
    assert "perplexity" not in found.systems[0].values
    assert found.systems[0].files[1].undefined.keys() == {"likelihood"}
    assert found.wins is not None
    assert found.wins.duels[0].won == found.wins.duels[0].lost == 0


def test_no_human_row_where_systems_have_different_references(tmp_path: Path) -> None:
    files = {
        name: [written(tmp_path, name, [{"text": text, "reference": text}])]
        for name, text in (("h1", "a a a a"), ("h2", "b c d e"))
    }
    found = nw.evaluate({"systems": files, "metrics": ["distinct:1"], "paired": False})
    assert found.human is None
    assert found.left_out["human"] == "the systems have different references"
    assert found.wins is None  # nothing has a goal, so nothing votes


def test_texts_in_place_of_files_are_refused_with_what_to_do(two: dict[str, list[str]]) -> None:
    for texts in (["a b c", "d e f."], [{"text": "a b c"}]):
        with pytest.raises(ValueError, match=r"'xl' must name samples files, not texts .*write the texts to a file"):
            nw.evaluate({"xl": texts}, metrics="distinct")  # type: ignore[dict-item]
    found = nw.evaluate(two, metrics="distinct", resamples=100)
    assert found["two"] is found.systems[1]
    with pytest.raises(KeyError):
        found["three"]


def test_without_references_the_human_row_asks_for_them(tmp_path: Path) -> None:
    files = {name: [written(tmp_path, name, [{"prompt": name, "text": "a b"}])] for name in ("a", "b")}
    found = nw.evaluate(files, metrics="distinct:1", paired=False, resamples=100)
    assert found.left_out["human"] == "no references were given (references=FILE)"


def test_a_reference_on_some_lines_only_is_an_error(tmp_path: Path) -> None:
    content = rows("one")
    del content[0]["references"]
    with pytest.raises(ValueError, match="'references'"):
        nw.evaluate({"systems": {"one": [written(tmp_path, "one", content)]}, "metrics": ["distinct:1"]})


def test_all_looks_at_every_file(tmp_path: Path) -> None:
    plain, scored = {"id": 1, "text": "a b"}, {"id": 1, "text": "a b", "log_probs": [-1.0]}
    files = {"a": [written(tmp_path, "a", [scored])], "b": [written(tmp_path, "b", [plain])]}
    for systems in (files, dict(reversed(files.items()))):
        assert "no log_probs in" in nw.evaluate({"systems": systems}).left_out["likelihood"]


def test_samples_without_anything_to_pair_them_by_are_not_tested(tmp_path: Path) -> None:
    files = {name: [written(tmp_path, name, [{"text": f"{name} x"}, {"text": "y y"}])] for name in "ab"}
    found = nw.evaluate({"systems": files, "metrics": ["distinct:1"]})
    assert found.tests == []
    assert "one of id, prompt" in (found.untested or "")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("perplexity", "'perplexity': this value is computed by the metric 'likelihood'"),
        ("distinct-1", "computed by the metric 'distinct'"),
        ("bleu-logicnlg-1", "computed by the metric 'bleu-logicnlg'"),
    ],
)
def test_a_measure_is_no_metric(asked: str, message: str, two: dict[str, list[str]]) -> None:
    with pytest.raises(ValueError, match=message):
        nw.evaluate({"systems": two, "metrics": [asked]})


def test_one_of_a_list_may_be_given_alone(two: dict[str, list[str]]) -> None:
    found = nw.evaluate({"systems": {"one": two["one"][0]}, "metrics": {"metric": "distinct", "n": 2}})
    assert found.systems[0].values.keys() == {"distinct-2"}


def test_counts_of_another_tokenizer_are_refused(tmp_path: Path) -> None:
    """Ids mean other words there, so frequency groups would be groups of nothing."""
    word_tokenizer(["a b c d"]).save_pretrained(tmp_path / "tokenizer")
    TokenCounts(np.array([1, 2, 3]), "0" * 64, "another text").save(tmp_path / "counts.npz")
    (tmp_path / "samples.jsonl").write_text(json.dumps({"text": "a b", "references": ["c d"]}) + "\n")
    settings = {
        "systems": {"one": [str(tmp_path / "samples.jsonl")]},
        "metrics": [{"metric": "frequency-groups", "counts": str(tmp_path / "counts.npz")}],
        "tokenizer": str(tmp_path / "tokenizer"),
    }
    with pytest.raises(ValueError, match="were made with another tokenizer"):
        nw.evaluate(settings)


def test_a_model_that_drew_several_times_counts_once(tmp_path: Path) -> None:
    files = [written(tmp_path, f"s{number}", rows("one", words=6 + number)) for number in range(6)]
    alone = [nw.evaluate({"systems": {"x": [file]}, "metrics": ["distinct:1"]}).systems[0] for file in files]
    values = np.array([one.values["distinct-1"].value for one in alone])

    def measured(files: list[str]) -> Any:
        return nw.evaluate({"systems": {"one": files}, "metrics": ["distinct:1"], "draws": 2}).systems[0]

    three = measured(files)
    means = values.reshape(3, 2).mean(axis=1)
    low, high = stats.t.interval(0.95, 2, loc=means.mean(), scale=stats.sem(means))
    found = three.values["distinct-1"]
    assert (found.value, found.low, found.high) == pytest.approx((values.mean(), low, high), abs=1e-12)
    assert [[file.file for file in model] for model in three.models] == [
        [f"s{n}.jsonl", f"s{n + 1}.jsonl"] for n in (0, 2, 4)
    ]
    low, high = stats.t.interval(0.95, 1, loc=values[:2].mean(), scale=stats.sem(values[:2]))
    found = measured(files[:2]).values["distinct-1"]
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-12)
    with pytest.raises(ValueError, match=r"draws:.*\(2 given"):
        measured(files[:3])


def test_draws_of_a_model_that_is_always_sure_are_the_same(tmp_path: Path) -> None:
    one, again, other = (written(tmp_path, name, rows(name[0])) for name in ("a1", "a2", "b"))
    config = {"metrics": ["distinct:1"], "draws": 2}
    same = nw.evaluate({"systems": {"sure": [one, again]}, **config}).systems[0].values["distinct-1"]
    assert same.low == same.value == same.high
    with pytest.raises(ValueError, match=r"sure:.*different"):
        nw.evaluate({"systems": {"sure": [one, other, one, other]}, **config})


def test_plain_text_beside_json_lines_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "x y", "id": 1}\n{"text": "y", "id": 2}\n', encoding="utf-8")
    (tmp_path / "b.txt").write_text("x\ny\n", encoding="utf-8")
    systems = {"a": [str(tmp_path / "a.jsonl")], "b": [str(tmp_path / "b.txt")]}
    with pytest.raises(ValueError, match=r"b\.txt is plain"):
        nw.evaluate({"systems": systems, "metrics": ["distinct"]})


def test_a_path_is_one_system_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "x y"}\n{"text": "y z"}\n', encoding="utf-8")
    assert [system.name for system in nw.evaluate(tmp_path / "a.jsonl").systems] == ["a"]
    with pytest.raises(ValueError, match=r"systems must name the files.*\(list given"):
        nw.evaluate(["a.jsonl", "b.jsonl"])
