from __future__ import annotations

import json
import math

import pytest
import torch
from transformers import AutoTokenizer, BartConfig, BartForConditionalGeneration, T5Config

import nextword as nw
from nextword.evaluation import evaluate
from nextword.evaluation.metrics.bleu import bleu_logicnlg
from nextword.experiments.comparison import all_methods
from nextword.experiments.comparison.comparison_settings import built_in, configured, read
from nextword.experiments.tasks import registry
from nextword.experiments.tasks.table2text import TableToText
from nextword.experiments.tasks.tables_as_text import MARKS
from nextword.experiments.tasks.task import ENCODER_DECODER
from nextword.experiments.tasks.tokenizers import trained_tokenizer
from nextword.experiments.tasks.writing import PromptedDecoding, SeededDecoding
from nextword.inference.generation.strategies import Decoding
from nextword.objectives import parse_objective
from nextword.results.records import Results
from nextword.settings.config import validated
from tests.evaluation.judges.conftest import bert_classifier, nli_folder, tapas_folder, tapex_folder
from tests.helpers.fake_models import FakeWriter
from tests.helpers.olympic_tables import small, write_logicnlg
from tests.helpers.real_data import real_data

__all__ = ["bert_classifier", "nli_folder", "tapas_folder", "tapex_folder"]  # fixtures

BEAM = PromptedDecoding(Decoding(beams=2))


def says_capitals(table, text):
    """A parser that takes a text for right where the table has its first word."""
    return text.split()[0].lower() in {cell for row in table.rows for cell in row}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_logicnlg(tmp_path_factory.mktemp("logicnlg"))


@pytest.fixture(scope="module")
def task(data):
    return small(data)


def lines(task, model, path):
    task.writes.write(model, task.start.tokenizer(), {path: SeededDecoding(BEAM, 0)}, {})
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def attached(task, head="softmax", objective="mle"):
    tokenizer = task.start.tokenizer()
    torch.manual_seed(0)
    return nw.attach(ENCODER_DECODER.new(task.start.architecture(tokenizer)), head, objective)


def test_registered():
    assert registry.get("table2text") is TableToText
    assert TableToText.architecture is ENCODER_DECODER


def test_rows_are_tables_with_a_token_for_each_mark(task):
    tokenizer = task.start.tokenizer()
    rows = task.data.training(tokenizer)
    assert len(rows) == 18
    marks = {tokenizer.convert_tokens_to_ids(mark) for mark in MARKS}
    assert len(marks) == len(MARKS)
    first = rows[0]
    kept = [token for token in first["input_ids"] if token in marks]
    text = task.samples.as_text(task.samples.train[:1])[0].source
    assert tokenizer.convert_ids_to_tokens(kept) == [word for word in text.split() if word in MARKS][: len(kept)]
    assert len(first["input_ids"]) == 120
    assert first["input_ids"][-1] == first["labels"][-1] == tokenizer.eos_token_id
    assert tokenizer.decode(rows[1]["labels"][:-1]) == "the Games of 1896 were in Athens"
    assert "<" not in task.data.whole_text()


def test_uniform_model_has_the_perplexity_of_its_vocabulary(task):
    tokenizer = task.start.tokenizer()
    model = FakeWriter(lambda ids, mode: torch.zeros(*ids.shape, len(tokenizer)), lambda source: source)
    metrics = task.measures.evaluate(model, tokenizer).metrics
    targets = [" ".join(one.sentence.split()) for one in task.samples.test]
    assert metrics["nll"].value == pytest.approx(math.log(len(tokenizer)))
    assert metrics["nll"].n == sum(len(tokenizer(target)["input_ids"]) + 1 for target in targets)
    assert metrics["bits_per_byte"].n == sum(len(target.encode()) for target in targets)


def test_samples_have_the_table_and_all_that_was_written_about_it(task, tmp_path):
    tokenizer = task.start.tokenizer()
    found = lines(task, attached(task), tmp_path / "beam.jsonl")
    assert [line["id"] for line in found] == list(range(9))
    line = found[7]
    assert line["references"] == [
        "the Games  of 1936 were in Oslo", "Oslo had the Games with the most seats", "Oslo came first",
    ]  # fmt: skip
    assert [tokenizer.decode(ids) for ids in line["reference_token_ids"]] == line["references"]
    assert line["table"]["title"] == "games 10"
    assert line["table"]["header"] == ["year", "city", "seats"]
    assert line["table"]["rows"][0] == ["1936", "oslo", "7"]
    assert line["source"] == line["prompt"] == task.samples.as_text(task.samples.test[7:8])[0].source
    assert tokenizer.decode(line["target_token_ids"][:-1]) == "the Games of 1936 were in Oslo"
    assert len(line["log_probs"]) == len(line["target_token_ids"])
    assert len(line["token_ids"]) <= 30


def test_a_sentence_of_the_same_table_has_the_bleu_of_a_reference(data, tmp_path):
    task = small(data, test_sentences=4, generation={"sentences": 3, "decodings": ["greedy"]})
    tokenizer = task.start.tokenizer()
    sentence = "Rome came first twice"
    model = FakeWriter(
        lambda ids, mode: torch.zeros(*ids.shape, len(tokenizer)),
        lambda source: [*tokenizer(sentence)["input_ids"], tokenizer.eos_token_id],
    )
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    path = tmp_path / "greedy.jsonl"
    task.writes.write(model, tokenizer, {path: SeededDecoding(PromptedDecoding(Decoding()), 0)}, {})
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["text"] for line in found] == [sentence] * 3
    of_tables = {
        name: [one.sentence for one in task.samples.available.test if one.table.name == name]
        for name in ("8.csv", "9.csv", "10.csv")
    }
    tables = [one.table.name for one in task.samples.test[:3]]
    assert [sorted(line["references"]) for line in found] == [sorted(of_tables[name]) for name in tables]
    scores = evaluate({"systems": {"copy": str(path)}, "metrics": ["bleu-logicnlg"]}).systems[0].values
    wanted = bleu_logicnlg([sentence] * 3, [of_tables[name] for name in tables])
    assert [scores[f"bleu-logicnlg-{n}"].value for n in (1, 2, 3)] == pytest.approx(list(wanted))


def test_no_texts_and_settings_that_cannot_be(data):
    assert small(data, generation={"sentences": 0}).writes is None
    model_config = BartConfig(max_position_embeddings=64)
    with pytest.raises(ValueError, match=r"task\.max_source_tokens"):
        small(data).check(model_config, trained_tokenizer("a b", 260, None))
    with pytest.raises(ValueError, match="must have decoder_start_token_id or bos_token_id"):
        small(data).check(T5Config(decoder_start_token_id=None, bos_token_id=None), trained_tokenizer("a b", 260, None))


def test_further_text_trains_the_start_only(data, tmp_path):
    text = "The river rose. The river fell in May. It rained.\n"
    path = tmp_path / "text.txt"
    path.write_text(text * 40)
    task = small(data, start={"d_model": 16, "d_ff": 16, "num_heads": 2, "data": str(path)})
    tokenizer = task.start.tokenizer()
    rows = task.start.pretraining(tokenizer, 0).dataset
    assert len(rows) == 18 + 36
    assert "<mask>" in tokenizer.decode(rows[-1]["input_ids"])
    assert len(task.data.training(tokenizer)) == 18
    assert task.data.describe()["start_pairs"] == 36


def test_leaks_are_counted(tmp_path):
    folder = write_logicnlg(tmp_path)
    described = small(folder).data.describe()
    assert (described["leak_tables"], described["leak_sentences"]) == (0, 6)  # all but what names a year
    content = json.loads((folder / "test_lm.json").read_text())
    content |= dict(list(json.loads((folder / "train_lm.json").read_text()).items())[:1])
    (folder / "test_lm.json").write_text(json.dumps(content))
    described = small(folder).data.describe()
    assert (described["leak_tables"], described["leak_sentences"]) == (3, 9)


@pytest.fixture
def small_bart(tmp_path):
    """A pretrained BART that knows no marks."""
    tokenizer = trained_tokenizer("athens had the games of 1896", 270, None)
    torch.manual_seed(0)
    config = BartConfig(
        vocab_size=len(tokenizer), d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=130,
        pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id, bos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.eos_token_id, forced_eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    BartForConditionalGeneration(config).save_pretrained(tmp_path / "bart")
    tokenizer.save_pretrained(tmp_path / "bart")
    return tmp_path / "bart"


@pytest.mark.slow
def test_every_column_of_table_7_is_filled(
    data, small_bart, nli_folder, tapex_folder, tapas_folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(all_methods, "_report", lambda results, folder: folder.report.write_text("drawn"))
    recipe = read("logicnlg-paper")
    recipe["seeds"], recipe["start"] = [0], {"model": str(small_bart)}
    recipe["training"] = {"steps": 1, "batch_size": 4, "learning_rate": 1e-3}
    recipe["task"] |= {"data": str(data), "max_source_tokens": 120, "max_target_tokens": 30, "test_sentences": 6}
    recipe["task"]["generation"] |= {"sentences": 4, "metrics": [
        "bleu-logicnlg", {"metric": "nli", "model": nli_folder}, {"metric": "tapex", "model": tapex_folder},
        {"metric": "tapas", "model": tapas_folder}, {"metric": "sp", "parser": f"{__name__}:says_capitals"},
    ]}  # fmt: skip
    all_methods.compare(configured(recipe), tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out" / "start" / "model")
    assert len(tokenizer("<cell> 5 </cell>", add_special_tokens=False)["input_ids"]) == 2 + len(
        tokenizer(" 5").input_ids
    )
    results = Results.load(tmp_path / "out" / "results.json")
    columns = {f"bleu-logicnlg-{n}" for n in (1, 2, 3)} | {"nli", "sp", "tapex", "tapas"}
    systems = {system.name: system.values for system in results.texts["beam 4"].systems}
    assert set(systems) == {"softmax", "cache (TRIME)", "cache (HistAlign)"}
    for values in systems.values():
        assert columns <= {name for name, one in values.items() if 0 <= one.value <= 1}
        assert values["sp"].n == 4


def test_recipes_are_those_of_the_paper():
    for name, limit in {"logicnlg": 256, "logicnlg-paper": 500}.items():
        assert name in built_in()
        config = configured(read(name), ["task.data=anywhere"])
        settings = validated(TableToText.Config, config.task_settings, "task")
        assert settings.max_source_tokens == limit
        assert settings.generation.texts().decodings[0].title == "beam 4"
        assert [method.title for method in config.methods] == ["softmax", "cache (TRIME)", "cache (HistAlign)"]
        assert parse_objective(config.methods[2].objective).alpha == 0.5
        assert config.seeds == [0, 1, 2]


@pytest.mark.slow
def test_real_tables(tmp_path):
    task = small(real_data("logicnlg"), max_source_tokens=500, test_sentences=8, vocabulary=1000)
    found = lines(task, attached(task, "cache", "histalign"), tmp_path / "beam.jsonl")
    assert len(found) == 8
    assert all(len(line["references"]) >= 4 for line in found)
