"""Our number for a cell: every kind of address, and what is said where there is none."""

from __future__ import annotations

import pytest

from nextword.experiments.reproduction.paper import Address
from nextword.experiments.reproduction.table_numbers import ExperimentResults, MissingValueError, cell_value
from nextword.results.records import FailedRun
from nextword.results.records.reproduced_table import NO_SEED
from tests.helpers.made_up_results import make_sample
from tests.helpers.written_results import comparison

SETTINGS = {"training": {"learning_rate": 1e-3, "batch_size": 8}, "task": {"name": "lm", "note": "as it is"}}


@pytest.fixture(scope="module")
def results():
    return make_sample(seeds=(1, 2, 3))


def found(results, **address):
    return cell_value(Address(**address), ExperimentResults(SETTINGS, results))


def setting_value(address, settings):
    """Of an experiment that was not run."""
    return cell_value(address, ExperimentResults(settings))


def test_a_measure_of_each_seed_in_the_paper_s_unit(results):
    cell = found(results, method="MoS", measure="acc@2", factor=100.0)
    values = {str(run.seed): 100 * run.evaluation.metrics["acc@2"].value for run in results.runs if run.method == "MoS"}
    assert dict(cell.by_seed) == values
    assert cell.value == pytest.approx(sum(values.values()) / 3)
    assert cell.low < cell.value < cell.high


def test_with_one_seed_the_interval_is_that_of_the_measurement():
    results = make_sample(seeds=(1,))
    run = next(run for run in results.runs if run.method == "MoS")
    one = run.evaluation.metrics["acc@2"]
    cell = found(results, method="MoS", measure="acc@2", factor=100.0)
    assert (cell.low, cell.high) == (pytest.approx(100 * one.low), pytest.approx(100 * one.high))


def test_a_factor_below_zero_turns_the_interval_round():
    cell = found(make_sample(seeds=(1,)), method="MoS", measure="acc@2", factor=-1.0)
    assert cell.low < cell.value < cell.high


def test_costs_data_and_settings(results):
    assert found(results, method="MoS", measure="cost.parameters", factor=1e-6).value == pytest.approx(125.039808)
    assert found(results, measure="data.train_prompts").by_seed == {NO_SEED: float(results.data["train_prompts"])}
    assert found(results, measure="setting.training.learning_rate", factor=1e5).value == pytest.approx(100)
    assert found(results, measure="setting.task.note").value == "as it is"
    assert setting_value(Address(measure="setting.training.batch_size"), SETTINGS).value == 8


@pytest.mark.parametrize(
    ("training", "length"),
    [({"epochs": None, "steps": 15000}, "15,000 steps"), ({"epochs": 3.0, "steps": None}, "3 epochs")],
)
def test_the_length_of_a_training_as_its_recipe_counts_it(training, length):
    assert setting_value(Address(measure="length.training"), {"training": training}).text == length


def test_a_setting_over_another_and_what_is_always_the_same():
    start = {"task": {"start": {"n_embd": 128, "n_head": 4}}}
    ratio = Address(measure="ratio.task.start.n_embd/task.start.n_head")
    assert setting_value(ratio, start).value == 32
    with pytest.raises(MissingValueError, match=r"ratio.* does not exist"):
        setting_value(ratio, {})
    assert setting_value(Address(measure="always.AdamW"), {}).text == "AdamW"


def test_a_batch_counts_what_is_accumulated():
    training = {"batch_size": 16, "gradient_accumulation_steps": 8}
    assert setting_value(Address(measure="batch.training"), {"training": training}).by_seed == {NO_SEED: 128.0}


def test_the_first_words_after_an_example_prompt(results):
    run = next(run for run in results.runs if run.method == "HistAlign")
    joint = [one for one in run.evaluation.examples if one.setting == "joint"]
    cell = found(results, method="HistAlign", measure="words.joint.2")
    assert cell.text == " and ".join(joint[1].expected) + ": " + ", ".join(word.word for word in joint[1].top)
    assert cell.text != found(results, method="HistAlign", measure="words.joint.1").text


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ({"method": "MoS", "measure": "words.cache_only.1"}, "no top predictions of 'cache_only' were kept"),
        ({"method": "HistAlin", "measure": "acc@2"}, "no method 'HistAlin'. Did you mean 'HistAlign'"),
        ({"method": "MoS", "measure": "acc@3"}, "acc@3 was not measured. Did you mean"),
        ({"method": "MoS", "measure": "cost.hours"}, "cost.hours was not measured"),
        ({"measure": "data.nothing"}, "data.nothing does not exist"),
        ({"measure": "setting.training.nothing"}, "training.nothing is not set"),
        (
            {"method": "MoS", "decoding": "greedy", "measure": "rep"},
            r"no texts were generated with 'greedy' \(available",
        ),
        ({"measure": "acc@2"}, "names no method"),
    ],
)
def test_what_is_not_there_says_why(results, address, message):
    with pytest.raises(MissingValueError, match=message):
        found(results, **address)


def test_a_failed_run_says_what_happened(results):
    failure = FailedRun(method="PG", head="pg", objective="mle", seed=1, reason="diverged at step 3: the loss is nan")
    with pytest.raises(MissingValueError, match="diverged at step 3"):
        found(results.model_copy(update={"failures": [failure]}), method="PG", measure="acc@2")


@pytest.fixture(scope="module")
def texts():
    return comparison(seeds=(1, 2, 3))


def test_measures_of_texts_by_seed_and_of_people(texts):
    cell = found(texts, method="MLE", decoding="greedy", measure="distinct-2", factor=100.0)
    system = next(one for one in texts.texts["greedy"].systems if one.name == "MLE")
    assert list(cell.by_seed.values()) == [100 * one.values["distinct-2"].value for one in system.files]
    assert list(cell.by_seed) == ["1", "2", "3"]
    people = found(texts, method="human", decoding="greedy", measure="distinct-2")
    assert people.by_seed == {NO_SEED: texts.texts["greedy"].human.values["distinct-2"].value}


def test_duels_from_both_sides_and_the_ranking(texts):
    first, second = (one.name for one in texts.texts["greedy"].systems[:2])
    duel = next(one for one in texts.texts["greedy"].wins.duels if {one.first, one.second} == {first, second})
    forward = found(texts, method=duel.first, decoding="greedy", measure=f"duel.{duel.second}")
    backward = found(texts, method=duel.second, decoding="greedy", measure=f"duel.{duel.first}")
    assert (forward.text, backward.text) == (f"{duel.won}-{duel.lost}", f"{duel.lost}-{duel.won}")
    places = {place.name: place for place in texts.texts["greedy"].wins.ranking}
    assert found(texts, method=first, decoding="greedy", measure="ranking.wins").value == places[first].wins


def test_a_ranking_among_some_methods_counts_their_duels_alone(texts):
    ranked = {"decoding": "greedy", "among": ("MLE", "FACE", "UL-token")}
    assert found(texts, method="FACE", decoding="greedy", measure="ranking.losses").value == 3
    assert found(texts, method="FACE", measure="ranking.losses", **ranked).value == 1
    assert found(texts, method="UL-token", measure="ranking.wins", **ranked).by_seed == {NO_SEED: 2.0}
    with pytest.raises(MissingValueError, match="'F2-Softmax'"):
        found(texts, method="F2-Softmax", measure="ranking.wins", **ranked)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ({"method": "MLE", "measure": "nothing"}, "nothing was not measured of these texts"),
        ({"method": "human", "measure": "likelihood"}, "people have no probabilities"),
        ({"method": "MLE", "measure": "duel.Nobody"}, "'MLE' and 'Nobody' were not compared"),
        ({"method": "MLE", "measure": "ranking.nothing"}, "'MLE' has no nothing in the ranking"),
    ],
)
def test_what_texts_lack_says_why(texts, address, message):
    with pytest.raises(MissingValueError, match=message):
        found(texts, decoding="greedy", **address)


def test_a_measure_of_a_metric_that_is_undefined_says_why(texts):
    greedy = texts.texts["greedy"].model_copy(deep=True)
    for file in next(one for one in greedy.systems if one.name == "MLE").files:
        file.undefined["entities"] = "Entity precision: no sample has a value"
    told = texts.model_copy(update={"texts": {"greedy": greedy}})
    with pytest.raises(MissingValueError, match="no sample has a value"):
        found(told, method="MLE", decoding="greedy", measure="entity-precision")


def test_people_have_no_perplexity(texts):
    with pytest.raises(MissingValueError, match="the human references have no probabilities"):
        found(texts, method="human", decoding="", measure="perplexity")
