from __future__ import annotations

import pytest
import torch
from datasets import Dataset
from transformers import BertConfig, BertModel, set_seed

import nextword as nw
from nextword.experiments.training.collator import distinct_texts, encode_texts, is_encodable
from nextword.experiments.training.learning_rates import parameter_groups
from nextword.experiments.training.one_training import fit
from tests.helpers.tiny_trainings import VOCABULARY, settings, tiny_gpt2

TEXTS = [[5, 6], [7, 8, 9, 10], [5, 6], [4], [2, 6]]


def conditioned(conditioner="dau", head="softmax"):
    set_seed(0)
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=12, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=16, hidden_dropout_prob=0.5,
    )  # fmt: skip
    return nw.attach(tiny_gpt2(), head, conditioner=conditioner, encoder=BertModel(config))


def data(**columns):
    ids = [[1 + row, 2, 3, 4 + row] for row in range(len(TEXTS))]
    return Dataset.from_dict({"input_ids": ids, "labels": ids, **columns})


def test_texts_are_taken_once_in_an_order_of_their_own():
    sets = [data(aux_input_ids=TEXTS), data(aux_input_ids=TEXTS[::-1]), data()]
    assert distinct_texts(sets) == [(4,), (2, 6), (5, 6), (7, 8, 9, 10)]


def test_states_are_what_the_encoder_says_without_padding(monkeypatch):
    monkeypatch.setattr(
        "nextword.experiments.training.collator.ROWS", 3
    )  # so that [4] stands beside texts of two tokens
    model, said = conditioned().train(), []
    found = encode_texts(model, distinct_texts([data(aux_input_ids=TEXTS)]), said.append)
    assert len(found) == 4
    assert said == [pytest.approx(0.75), 1.0]
    ids = [torch.tensor(text) for text in TEXTS]
    for row, state in zip(ids, found.of(ids), strict=True):
        with torch.no_grad():
            expected = model.auxiliary_encoder.eval()(row[None]).last_hidden_state[0]
        torch.testing.assert_close(state, expected, rtol=0, atol=1e-6)
    assert found.of([*ids, torch.tensor([9, 9])]) is None


def test_only_a_frozen_encoder_is_asked_before():
    assert is_encodable(conditioned())
    assert not is_encodable(conditioned({"conditioner": "dau", "trains": "all"}))
    assert not is_encodable(tiny_gpt2())


@pytest.mark.slow
@pytest.mark.parametrize("conditioner", ["dau", "lmh", "bergpt", "prefix:2"])
def test_training_on_states_is_training_on_texts(tmp_path, conditioner):
    rows, trained = data(aux_input_ids=TEXTS), []
    for number in range(2):
        model = conditioned(conditioner)
        before = {name: value.clone() for name, value in model.auxiliary_encoder.state_dict().items()}
        texts = encode_texts(model, distinct_texts([rows]), lambda _: None) if number else None
        outcome = fit(model.train(), rows, settings(), seed=1, folder=tmp_path / str(number), encoded=texts)
        assert outcome.cost.trained_parameters == sum(one.numel() for one in model.parameters() if one.requires_grad)
        assert all(torch.equal(value, before[name]) for name, value in model.auxiliary_encoder.state_dict().items())
        trained.append(model)
    for (name, one), two in zip(trained[0].state_dict().items(), trained[1].state_dict().values(), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=2e-5, msg=name)


@pytest.mark.parametrize(
    ("head", "missing"), [("softmax", "labels and aux"), ("softmax+ce", "source_ids and source_p")]
)
def test_data_without_the_texts_is_refused(tmp_path, head, missing):
    with pytest.raises(ValueError, match=f"needs columns .*{missing}.*has input_ids, labels"):
        fit(conditioned(head=head), data(), settings(), seed=1, folder=tmp_path / "out")


def test_a_model_without_conditioner_does_not_see_them(tmp_path):
    rows = data(aux_input_ids=TEXTS, source_ids=TEXTS, source_positions=TEXTS)
    outcome = fit(nw.attach(tiny_gpt2(), "softmax"), rows, settings(), seed=1, folder=tmp_path)
    assert outcome.curve[-1].loss < outcome.curve[0].loss


def test_a_rate_for_a_frozen_encoder_is_refused(tmp_path):
    rates = settings(learning_rates={"conditioner": 1e-3, "encoder": 1e-5})
    message = "learning_rates.encoder: is not trained, all of it is frozen; it trains conditioner"
    with pytest.raises(ValueError, match=message):
        fit(conditioned(), data(aux_input_ids=TEXTS), rates, seed=1, folder=tmp_path / "out")
    groups = parameter_groups(conditioned("bergpt", "mos:2"))
    assert list(groups) == ["output_embeddings", "encoder", "conditioner", "head", "backbone"]
