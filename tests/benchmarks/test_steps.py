"""Every baseline computes the same loss, and what is timed is what is meant."""

from __future__ import annotations

import head_cost
import pytest
import torch
from decoding_speed import WHOLE, writers
from interleaved import interleaved, ratio
from shapes import attached, backbone
from steps import backbone_alone, language_model, last_states, linear_losses, with_loss
from texts import counts_file, law, repeating
from training_step import SUITES, Suite, chosen, measured, steps_of

import nextword as nw

TOY = Suite("toy", ("f2",), length=16, others=True)


def test_turns_are_taken_and_the_first_is_left_out() -> None:
    said: list[str] = []
    clock = iter([9.0, 9.0, 1.0, 2.0, 3.0, 4.0])

    def run(name: str) -> float:
        said.append(name)
        return next(clock)

    seconds = interleaved({"a": lambda: run("a"), "b": lambda: run("b")}, 2)
    assert said == ["a", "b"] * 3
    assert seconds == {"a": [1.0, 3.0], "b": [2.0, 4.0]}
    assert ratio(seconds["a"], seconds["b"]) == pytest.approx((0.5 + 0.75) / 2)


def test_all_losses_for_plain_softmax_are_one_number() -> None:
    bare = backbone("toy").eval()
    ids = repeating(300, 2, 16)
    expected = bare(input_ids=ids, labels=ids).loss
    torch.testing.assert_close(attached(bare, "softmax").eval()(input_ids=ids, labels=ids).loss, expected)
    states = last_states(bare, {"input_ids": ids}, use_cache=False)[:, :-1].flatten(0, 1)
    losses, missing = linear_losses("cpu")
    assert set(missing) == {"Liger-Kernel", "cut-cross-entropy"}
    assert len(losses) == 3
    for name, loss in losses.items():
        found = loss(states, bare.get_output_embeddings().weight, ids[:, 1:].flatten())
        torch.testing.assert_close(found, expected, msg=name)


def test_steps_share_one_backbone_and_leave_no_gradients() -> None:
    steps, _ = steps_of(TOY, "cpu", "float32")
    bare = next(iter(steps.values())).model
    for step in steps.values():
        assert getattr(step.model, "backbone", step.model) is bare
        assert step.seconds() > 0
        assert step.peak() > 0
        assert all(weight.grad is None for weight in step.model.parameters())


def test_a_step_makes_gradients_of_all_weights() -> None:
    bare = backbone("toy").train()
    ids = repeating(300, 2, 16)
    inputs = {"input_ids": ids, "labels": ids}
    (loss, *_), _ = linear_losses("cpu")[0].values(), None
    for step in (language_model(bare, inputs), with_loss(bare, inputs, loss), backbone_alone(bare, inputs)):
        bare.zero_grad(set_to_none=True)
        step.run()
        assert all(weight.grad is not None for weight in bare.parameters())


def test_the_backbone_alone_goes_to_the_last_hidden_state_of_either_kind() -> None:
    ids = repeating(300, 2, 8)
    for size in ("toy", "toy-t5"):
        bare = backbone(size).eval()
        inputs = {"input_ids": ids, "labels": ids}
        out = bare(**inputs, output_hidden_states=True)
        expected = (out.decoder_hidden_states if size == "toy-t5" else out.hidden_states)[-1]
        torch.testing.assert_close(last_states(bare, inputs, use_cache=False), expected)


def test_rows_of_a_suite() -> None:
    rows = measured(Suite("toy", ("cache", "cache/histalign"), length=16, baseline="cache"), "cpu", "float32", 1)
    assert [row["model"] for row in rows] == ["cache", "cache/histalign"]
    assert rows[0]["time_ratio"] == rows[0]["peak_ratio"] == rows[0]["head_ratio"] == "1.000"
    assert float(rows[1]["head_mb"]) > 0
    assert {row["baseline"] for row in rows} == {"cache"}


@pytest.mark.parametrize("what", head_cost.WHAT)
def test_every_way_to_use_a_model_is_timed_against_transformers(what: str) -> None:
    bare = backbone("toy")
    models = {"transformers": bare, "cache": attached(bare, "cache")}
    rows = head_cost.measured(what, models, repeating(300, 2, 16), 3, 1)
    assert [row["model"] for row in rows] == ["transformers", "cache"]
    assert rows[0]["ratio"] == "1.000"
    assert float(rows[1]["ms"]) > 0
    assert bare.training is (what == "training")


def test_a_heads_share_grows_with_the_vocabulary() -> None:
    shares = []
    for vocabulary in (300, 3000):
        steps, alone = steps_of(Suite("toy", (), length=16, vocabulary=vocabulary), "cpu", "float32")
        (step, *_), (without, *_) = steps.values(), alone.values()
        shares.append(step.peak() - without.peak())
    # 30 targets with a score a word, of which transformers holds several at once
    assert shares[1] - shares[0] > 2 * 2700 * 30 * 4


def test_suites_hold_every_method_with_a_target() -> None:
    from performance_page import TARGETS
    from table_parts import targets

    wanted = targets(TARGETS)
    for name, aims in wanted["training"].items():
        assert set(aims) <= set(SUITES[name].methods)
    for method in {method for suite in SUITES.values() for method in suite.methods}:
        head, _, objective = method.partition("/")
        nw.heads.parse_head(head)
        nw.objectives.parse_objective(objective or "mle")


def test_the_command_line_changes_suites() -> None:
    from argparse import Namespace

    given = Namespace(suite=["histalign"], batch=8, length=None, quick=True, head=["cache/histalign"], model=None)
    (suite,) = chosen(given).values()
    assert (suite.size, suite.batch, suite.length, suite.methods) == ("toy", 8, 32, ("cache", "cache/histalign"))


@pytest.mark.parametrize("beams", [1, 2])
def test_writers_write_as_much_as_is_asked_and_stamp_every_token(beams: int) -> None:
    models = writers("toy", ["softmax", "f2"], "cpu", "float32", 64)
    assert list(models) == ["transformers GPT2LMHeadModel", "softmax", "f2", WHOLE]
    prompts = repeating(300, 2, 8)
    for writer in models.values():
        times = writer.write(prompts, 4, beams).times
        assert len(times) == 4
        assert times == sorted(times)


def test_texts_follow_the_law_and_repeat_themselves() -> None:
    ids = repeating(300, 2, 64)
    assert torch.equal(ids, repeating(300, 2, 64))
    for row in ids:
        assert set(row[32:].tolist()) <= set(row[:32].tolist())
    with counts_file(300) as path:
        from nextword.functional.frequency import TokenCounts

        assert (TokenCounts.load(path).counts == law(300)).all()
