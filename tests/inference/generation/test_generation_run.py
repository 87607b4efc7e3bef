from __future__ import annotations

import json
import random

import pytest

import nextword as nw
from nextword.evaluation import evaluate
from nextword.inference.generation.generation_passes import GenerationSettings
from nextword.inference.generation.generation_run import GenerationRun, generated_texts, write_samples_files
from nextword.inference.generation.prompts import TextPrompt, read_prompts
from nextword.results.records import locked
from tests.helpers.counted import counts_file
from tests.helpers.writing_models import LOUD_CACHE, opened_model, tokenizer

WORDS = ["The king", "Once upon a time there was a", "a", "", "and the queen met the mayor", "옛날 옛적에"]
GROWING = {"head": "knn", "k": 2, "weight": 0.9, "temperature": 0.1}
"""Without a store on the disk."""
PROMPTS = [
    TextPrompt(text, references=(f" a dragon {place}", " his wife"), id=f"p{place}") for place, text in enumerate(WORDS)
]


def planned(opened=None, prompts=PROMPTS, **settings):
    asked = {"max_new_tokens": 7, "batch_size": 2, **settings}
    return GenerationRun.planned(opened or opened_model(), prompts, GenerationSettings.model_validate(asked))


def lines(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".jsonl"}


def test_a_samples_file_for_each_decoding_and_seed(tmp_path):
    run = planned(decodings=["greedy", "sample"], seeds=[0, 1], samples=2)
    paths = write_samples_files(run, tmp_path)
    assert [path.name for path in paths] == ["greedy.jsonl", "sample-seed-0.jsonl", "sample-seed-1.jsonl"]
    greedy, first, second = map(lines, paths)
    assert [line["id"] for line in greedy] == [f"p{place}" for place in range(6)]
    assert [line["id"] for line in first[:3]] == ["p0", "p0#1", "p1"]
    assert [(line["decoding"], line["seed"], line["sample"]) for line in first[:2]] == [
        ("sample", 0, 0), ("sample", 0, 1)
    ]  # fmt: skip
    assert [line["token_ids"] for line in first] != [line["token_ids"] for line in second]
    assert [line["prompt"] for line in greedy] == WORDS
    assert greedy[0]["prompt_token_ids"] == tokenizer()("The king")["input_ids"]
    assert greedy[0]["references"] == [" a dragon 0", " his wife"]
    assert all(line["text"] == tokenizer().decode(line["token_ids"]) for line in first)
    assert "run" in first[0]
    assert "run" not in first[1]


def test_the_iterator_gives_what_the_files_hold(tmp_path):
    run = planned(decodings=["sample"], samples=2)
    (path,) = write_samples_files(run, tmp_path / "one.jsonl")
    found = sorted((text.row.number, text.token_ids) for _, text in generated_texts(run))
    assert [ids for _, ids in found] == [line["token_ids"] for line in lines(path)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "arguments"),
    [
        ("cache", {}),
        ({"head": "f2", "counts": counts_file()}, {}),
        ("softmax", {"num_beams": 3}),
        ("softmax", {"prompt_lookup_num_tokens": 3}),
        (GROWING, {}),
    ],
)
def test_interrupted_anywhere_the_same_run_goes_on_to_the_same_files(tmp_path, head, arguments):
    def run():
        remember = 30 if head == GROWING else 0
        asked = {"decodings": ["sample"], "arguments": arguments, "seeds": [0, 1], "remember": remember}
        return planned(opened_model(head=head), **asked)

    class CutOffError(Exception):
        pass

    write_samples_files(run(), tmp_path / "whole")
    expected, chance, shares = contents(tmp_path / "whole"), random.Random(0), []
    for _ in range(100):
        steps = chance.randrange(4)

        def stop(share, left=[steps]):  # noqa: B006  # counts down
            shares.append(share)
            if left[0] == 0:
                raise CutOffError
            left[0] -= 1

        try:
            write_samples_files(run(), tmp_path / "cut", progress=stop)
            break
        except CutOffError:
            for partial in (tmp_path / "cut").glob("*.partial"):  # as if the last line was not written whole
                with partial.open("r+b") as file:
                    file.truncate(max(0, partial.stat().st_size - chance.choice([0, 0, 1, 60])))
    assert len(shares) > 6
    assert contents(tmp_path / "cut") == expected
    assert not list((tmp_path / "cut").glob("*.partial"))


def test_finished_texts_are_not_written_again(tmp_path, monkeypatch):
    run = planned(decodings=["greedy"])
    (path,) = write_samples_files(run, tmp_path)
    before, shares = path.stat().st_mtime_ns, []
    monkeypatch.setattr(type(run.opened.model), "generate", None)
    assert write_samples_files(run, tmp_path, progress=shares.append) == [path]
    assert (path.stat().st_mtime_ns, shares) == (before, [1.0])


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"max_new_tokens": 6}, "arguments.max_new_tokens: 7 there, 6 asked for"),
        ({"batch_size": 3}, "batch_size: 2 there, 3 asked for"),
        ({"opened": opened_model(seed=1)}, 'weights: ".*" there, ".*" asked for'),
        ({"prompts": PROMPTS[:-1]}, 'prompts: "6, checksum .*" there, "5, checksum .*" asked for'),
        ({"stop": ["a"]}, r'stop: \[\] there, \["a"\] asked for'),
        ({"sources": True}, "places: nothing there, 3 asked for"),
        ({"opened": opened_model(head=GROWING), "remember": 9}, "head: .*remember: nothing there, 9 asked for"),
    ],
)
def test_another_run_is_refused_with_the_difference_named(tmp_path, changes, difference):
    write_samples_files(planned(decodings=["greedy"]), tmp_path)
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=rf"greedy\.jsonl belongs to another run \({difference}\); choose another out"):
        write_samples_files(planned(**{"decodings": ["greedy"], **changes}), tmp_path)
    assert contents(tmp_path) == before


def test_the_same_weights_in_other_settings_are_another_run(tmp_path):
    def cache(weight, **usual):
        opened = opened_model(head={"head": "cache", "weight": weight})
        opened.model.generation_config.update(**usual)
        return planned(opened, decodings=["greedy"])

    write_samples_files(cache(0.5), tmp_path)
    with pytest.raises(ValueError, match="asked"):
        write_samples_files(cache(0.25), tmp_path)
    with pytest.raises(ValueError, match=r"\(generation_config\.repetition_penalty"):
        write_samples_files(cache(0.5, repetition_penalty=1.5), tmp_path)
    assert write_samples_files(cache(0.5), tmp_path)


def test_decodings_and_seeds_may_be_added(tmp_path):
    write_samples_files(planned(decodings=["sample"]), tmp_path)
    before = contents(tmp_path)
    write_samples_files(planned(decodings=["sample", "greedy"], seeds=[0, 1]), tmp_path)
    after = contents(tmp_path)
    assert len(after) == 3
    assert {name: after[name] for name in before} == before


def test_one_process_at_a_time(tmp_path):
    with locked(tmp_path, "another one"), pytest.raises(ValueError, match=r"is in use by .*another one"):
        write_samples_files(planned(), tmp_path)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(ValueError, match="file; give a folder"):
        write_samples_files(planned(), tmp_path / "out")


def test_evaluate_reads_all_of_it(tmp_path):
    run = planned(decodings=["sample"], seeds=[0, 1], samples=2)
    paths = write_samples_files(run, tmp_path, scored=True)
    metrics = ["distinct", "self-bleu:2", "likelihood", "unigram-kl", "seq-rep"]
    found = evaluate({"systems": {"tiny": [str(path) for path in paths]}, "metrics": metrics})
    scored = lines(paths[0])
    nll = -sum(sum(line["log_probs"]) for line in scored) / sum(len(line["log_probs"]) for line in scored)
    assert found.systems[0].values["nll"].value == pytest.approx(nll)


def test_samples_of_a_run_are_prompts_of_the_next(tmp_path):
    run = planned(decodings=["sample"], samples=2)
    (path,) = write_samples_files(run, tmp_path / "a.jsonl")
    assert read_prompts(path) == PROMPTS
    sources = [TextPrompt(source=one.prompt + " dragon", id=one.id) for one in PROMPTS]
    run = planned(opened_model("t5", "pg"), sources)
    (path,) = write_samples_files(run, tmp_path / "b.jsonl")
    assert read_prompts(path) == sources
    assert lines(path)[0]["source"] == lines(path)[0]["prompt"] == "The king dragon"


def test_ids_are_each_their_own():
    with pytest.raises(ValueError, match="prompts: id 'a' comes twice"):
        planned(prompts=[TextPrompt("x", id="a"), TextPrompt("y", id="a")])
    with pytest.raises(ValueError, match=r"prompts:.*least"):
        planned(prompts=[])


def test_one_call_from_model_and_prompts_to_samples(tmp_path):
    opened = opened_model("gpt2", LOUD_CACHE)
    settings = {"decodings": ["top-k:3", "greedy"], "samples": 2, "max_new_tokens": 4, "sources": True}
    samples = nw.generate(opened.model, opened.tokenizer, ["the king", "a queen and a"], **settings)
    assert [one["prompt"] for one in samples] == [
        *["the king"] * 2,
        *["a queen and a"] * 2,
        "the king",
        "a queen and a",
    ]
    assert all(len(one["shares"]["cache"]) == len(one["token_ids"]) for one in samples)
    opened.model.save_pretrained(tmp_path)
    opened.tokenizer.save_pretrained(tmp_path)
    again = nw.generate(tmp_path, prompts=["the king", "a queen and a"], **settings)
    assert [one["text"] for one in again] == [one["text"] for one in samples]


def test_one_call_says_which_setting_is_wrong():
    opened = opened_model("gpt2", "softmax")
    with pytest.raises(ValueError, match=r"max_new_token:.*'max_new_tokens'"):
        nw.generate(opened, prompts="the king", max_new_token=4)


@pytest.mark.parametrize("given", ["Anna", ["Anna", "Ben"], TextPrompt("Anna")])
def test_a_text_in_place_of_the_tokenizer_is_said_to_be_one(tmp_path, given):
    opened = opened_model()
    opened.model.save_pretrained(tmp_path)
    opened.tokenizer.save_pretrained(tmp_path)
    for model in (tmp_path, opened.model, opened):
        with pytest.raises(ValueError, match=r"tokenizer:.*tokenizer"):
            nw.generate(model, given)


@pytest.mark.parametrize("folder", ["runs/nowhere", "./nowhere", "nowhere"])
def test_a_folder_that_is_not_there_is_named_with_what_to_do(tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=rf"^{folder}: no [^\n]*; give the path of a saved model, or its name"):
        nw.generate(folder, prompts="Anna")
