from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from nextword.evaluation.survey import MadeSurvey, survey_results
from nextword.evaluation.survey.outputs import write_survey
from nextword.results.records.survey_files import JudgeAnswers, Survey, SurveyResults
from tests.helpers.answered_surveys import answered, every_form, made, prefer, saved


@pytest.fixture
def pairs(tmp_path: Path) -> MadeSurvey:
    survey = made(tmp_path)
    write_survey(survey, tmp_path / "survey")
    return survey


def read(folder: Path, answers: list[JudgeAnswers]) -> SurveyResults:
    return survey_results(folder / "survey", saved(answers, folder), resamples=200)


def test_win_tie_lose_whichever_side(pairs: MadeSurvey, tmp_path: Path) -> None:
    results = read(tmp_path, every_form(pairs, prefer("b")))
    assert results.left_out == []
    assert all(one.counted and one.checks == 2 and one.failed == 0 for one in results.judges)
    assert [(one.win.value, one.tie.value, one.lose.value) for one in results.duels] == [(0, 0, 1)] * 3
    assert [one.win.n for one in results.duels] == [18] * 3
    assert [one.alpha["nominal"] for one in results.agreement] == [1.0] * 3
    assert {one.p_permutation for one in results.judged.tests} == {2 / 2**6}
    assert all(one.difference == -1 for one in results.judged.tests)


def test_known_shares_and_counts(pairs: MadeSurvey, tmp_path: Path) -> None:
    """Two of three judges prefer a, the third sees no difference."""
    slots = iter([prefer("a"), prefer("a"), lambda *_: "same"] * 2)
    answers = [answered(pairs, form, f"j{form}", next(slots)) for form in range(6)]
    results = read(tmp_path, answers)
    for one in results.duels:
        assert (one.win.value, one.tie.value, one.lose.value) == pytest.approx((2 / 3, 1 / 3, 0))
    assert [one.percent for one in results.agreement] == pytest.approx([1 / 3] * 3)


def test_an_interval_of_a_difference_of_shares_ends_where_shares_end(tmp_path: Path) -> None:
    """Two judges who agree on most items: how other judges would differ is hardly known, but nobody beyond 100 %."""
    survey = made(tmp_path, items=4, items_per_form=4, judges=2)
    write_survey(survey, tmp_path / "survey")
    last = list(survey.key.items)[-1]
    results = read(
        tmp_path,
        every_form(
            survey,
            lambda judge, item, *said: prefer("b" if (judge, item) == ("judge-1", last) else "a")(judge, item, *said),
        ),
    )
    assert {(one.difference, one.high) for one in results.judged.tests} == {(0.75, 1.0)}
    assert all(one.low is not None and -1 <= one.low < 0.75 for one in results.judged.tests)


def test_the_bootstrap_of_the_paper_draws_items(tmp_path: Path) -> None:
    """p_bootstrap against a bootstrap written out here: HistAlign's, over items, two-sided."""
    survey = made(tmp_path, items=8, items_per_form=8, judges=1)
    write_survey(survey, tmp_path / "survey")
    preferred = {item: "b" if at < 2 else "a" for at, item in enumerate(survey.key.items)}
    answers = every_form(survey, lambda judge, item, question, writers: prefer(preferred[item])("", "", "", writers))
    results = survey_results(tmp_path / "survey", saved(answers, tmp_path), resamples=4000)
    # eight items, a difference of 1 in six of them and of -1 in two: the sum of eight draws is 0 or less with a chance
    # that can be counted, at most four draws of eight with probability 3/4
    chance = sum(math.comb(8, k) * 0.75**k * 0.25 ** (8 - k) for k in range(5))
    assert {one.difference for one in results.judged.tests} == {0.5}
    for one in results.judged.tests:
        # 4000 draws: the standard error of twice a share near 0.11 is 0.01
        assert one.p_bootstrap == pytest.approx(2 * chance, abs=0.04)
        assert one.p_permutation == pytest.approx(2 * (1 + 8 + 28) / 2**8)


def test_points_ranks_and_agreement(tmp_path: Path) -> None:
    survey = made(tmp_path, "rating")
    write_survey(survey, tmp_path / "survey")
    points = {"a": "2", "b": "4", "reference": "4"}
    results = read(tmp_path, every_form(survey, lambda judge, item, question, writers: points[writers["text"]]))
    values = {one.name: one.values for one in results.judged.systems}
    assert [values[name]["fluency"].value for name in points] == [2, 4, 4]
    assert [values[name]["fluency-rank"].value for name in points] == [3, 1.5, 1.5]
    assert set(results.agreement[0].alpha) == {"ordinal", "interval"}
    assert results.duels == []


def test_shares_of_sentences_and_of_marked_words(tmp_path: Path) -> None:
    survey = made(tmp_path, "faithfulness", near=20)
    write_survey(survey, tmp_path / "survey")
    answers = every_form(survey, lambda judge, item, question, writers: "no" if writers["text"] == "b" else "yes")
    texts = {(item.id, unit.id): unit.texts[0].lines[0] for item in survey.survey.items for unit in item.units}
    content = [one.model_dump(mode="json") for one in answers]
    for one in content:
        for item in one["items"]:
            for unit in item["units"]:
                if unit["answers"]["faithfulness"] == "no":
                    unit["marks"] = [[0, len(texts[item["id"], unit["id"]].split()[0])]]
    changed = [JudgeAnswers.model_validate_json(json.dumps(one)) for one in content]
    results = read(tmp_path, changed)
    values = {one.name: one.values["faithfulness"] for one in results.judged.systems}
    assert (values["a"].value, values["b"].value) == (1, 0)
    own = {
        (item, unit): texts[item, unit].split()
        for item, key in survey.key.items.items()
        for unit, writers in key.units.items()
        if writers["text"] == "b"
    }
    assert results.marked["a"].value == 0
    assert results.marked["b"].value == pytest.approx(len(own) / sum(map(len, own.values())))


def test_judges_who_fail_checks_are_named_and_left_out(pairs: MadeSurvey, tmp_path: Path) -> None:
    answers = every_form(pairs, prefer("a"))
    bad = answered(pairs, 0, "sleepy", prefer("b")).model_dump(mode="json")
    for item in bad["items"]:
        if item["id"] in pairs.key.checks:
            item["units"][0]["answers"]["fluency"] = "x"
    results = read(tmp_path, [*answers, JudgeAnswers.model_validate_json(json.dumps(bad))])
    (sleepy,) = [one for one in results.judges if not one.counted]
    assert (sleepy.name, sleepy.failed, sleepy.items) == ("sleepy", 2, 0)
    assert results.left_out[0].startswith("sleepy: left out, because the judge failed 2 of 2 checks (items ")
    assert results.duels[0].win.value == 1


def test_what_does_not_count_is_named_and_the_rest_counts(pairs: MadeSurvey, tmp_path: Path) -> None:
    good = every_form(pairs, prefer("a"))
    twice = good[0]
    other = good[1].model_copy(update={"survey": "another", "judge": "lost"})
    refused = good[1].model_copy(update={"consent": False, "judge": "no"})
    short = good[1].model_copy(update={"items": good[1].items[1:]})
    edited = answered(pairs, 2, "edited", prefer("b"))
    real = next(one for one in edited.items if one.id in pairs.key.items)
    edited = edited.model_copy(
        update={"items": [one.model_copy(update={"digest": "0" * 16}) if one is real else one for one in edited.items]}
    )
    strange = good[3].items[0].model_copy(update={"id": "i99"})
    unknown = good[3].model_copy(update={"items": [*good[3].items, strange]})
    files = saved([good[0], twice, other, refused, short, edited, unknown], tmp_path)
    broken = tmp_path / "broken.json"
    broken.write_text('{"kind": ', encoding="utf-8")
    results = survey_results(tmp_path / "survey", [*files, broken], resamples=100)
    told = "\n".join(results.left_out)
    for line in (
        "broken.json: left out, cannot be read",
        "answers-1.json (judge-0): items ",
        "the same judge answered earlier; the first answer counts",
        "answers-2.json (lost): left out, because it answers another survey (another)",
        "answers-3.json (no): left out, because there is no consent",
        f"answers-4.json (judge-1): item {good[1].items[0].id} not answered; the rest counts",
        f"answers-5.json (edited): item {real.id} left out, the judge saw a text that differs",
        "answers-6.json (judge-3): item i99 left out, not in this survey",
    ):
        assert line in told
    items = {one.name: one.items for one in results.judges}
    missing = good[1].items[0].id in pairs.key.items
    assert items == {"judge-0": 3, "judge-1": 3 - missing, "edited": 2, "judge-3": 3}


def test_an_item_edited_afterwards_is_left_out(pairs: MadeSurvey, tmp_path: Path) -> None:
    file = tmp_path / "survey" / "survey.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    at = next(at for at, item in enumerate(content["items"]) if item["id"] in pairs.key.items)
    content["items"][at]["units"][0]["texts"][0]["lines"] = ["another text"]
    file.write_text(json.dumps(content), encoding="utf-8")
    results = read(tmp_path, every_form(pairs, prefer("a")))
    name = content["items"][at]["id"]
    assert results.left_out == [
        f"survey.json: item {name} left out, because they were edited after the survey was made"
    ]
    assert results.duels[0].win.n == 15


def test_nothing_that_counts_is_an_error(pairs: MadeSurvey, tmp_path: Path) -> None:
    other = answered(pairs, 0, "x", prefer("a")).model_copy(update={"survey": "another"})
    with pytest.raises(ValueError, match=r"answers:.*survey"):
        read(tmp_path, [other])


def test_the_key_of_another_survey_is_refused(pairs: MadeSurvey, tmp_path: Path) -> None:
    made(tmp_path, seed=5).key.save(tmp_path / "survey" / "key.json")
    with pytest.raises(ValueError, match=r"key\.json: must belong to survey"):
        read(tmp_path, every_form(pairs, prefer("a")))


def test_intervals_hold_a_known_preference_through_the_files(tmp_path: Path) -> None:
    """The whole way, from answers with chance in them to an interval around the known share."""
    survey = made(tmp_path, items=12, items_per_form=4, judges=5)
    write_survey(survey, tmp_path / "survey")
    rng = np.random.default_rng(0)
    chance = lambda judge, item, question, writers: prefer("a" if rng.random() < 0.7 else "b")("", "", "", writers)  # noqa: E731
    results = read(tmp_path, every_form(survey, chance))
    for one in results.duels:
        assert one.win.low is not None
        assert one.win.high is not None
        assert one.win.low < 0.7 < one.win.high


def test_a_survey_is_read_back_as_written(pairs: MadeSurvey, tmp_path: Path) -> None:
    assert Survey.load(tmp_path / "survey" / "survey.json") == pairs.survey
