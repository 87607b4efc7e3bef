"""What a method says, and the tables that its texts are short for."""

from __future__ import annotations

import pytest

import nextword as nw
from nextword.conditioning import parse_conditioner
from nextword.experiments.training.method_settings import MethodSettings, table_of_spec
from nextword.heads import parse_head
from nextword.objectives import parse_objective
from nextword.settings.overrides import overridden
from tests.helpers.conditioned_models import conditioned
from tests.helpers.families import tiny


def test_overrides_of_one_model_reach_into_its_specs() -> None:
    given = {"head": "cache", "objective": "histalign:paper", "start": {"model": "gpt2"}}
    changed = overridden(given, ["head.temperature=0.5", "objective.base=trime", "start.model=x"], table_of_spec)
    assert parse_head(changed["head"]) == parse_head("cache:temperature=0.5")
    assert parse_objective(changed["objective"]).base == "trime"
    assert changed["start"] == {"model": "x"}
    assert given["head"] == "cache"


def test_a_path_into_other_text_leads_nowhere() -> None:
    with pytest.raises(ValueError, match=r"start\.model"):
        overridden({"start": {"model": "gpt2"}}, ["start.model.name=x"], table_of_spec)


def test_an_override_into_an_unknown_part_names_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"'histalign'\?"):
        overridden({"objective": "histalin"}, ["objective.alpha=1"], table_of_spec)


def test_the_line_in_a_saved_configuration_is_a_method() -> None:
    head = {"head": "mos:5", "bias": False}
    model = conditioned(
        tiny("gpt2"), head, {"conditioner": "bergpt", "expansion": 2}, "unlikelihood:alpha=0.5+seq:8x8,n=3"
    )
    method = MethodSettings.model_validate(model.config.spec)
    assert parse_head(method.head) == model.next_word_head.config
    assert parse_objective(method.objective) == model.objective.config
    assert parse_conditioner(method.conditioner or "") == model.conditioner.config


def test_the_line_is_read_where_a_setting_is_a_path() -> None:
    line = nw.NextWordConfig(head={"head": "f2", "counts": "runs/a.npz"}, objective="face").spec
    method = MethodSettings.model_validate(line)
    assert (method.head, method.objective) == ('f2:counts="runs/a.npz"', "face:opr")
