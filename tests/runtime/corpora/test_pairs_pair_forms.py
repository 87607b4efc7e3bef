from __future__ import annotations

import pytest

from nextword.runtime.corpora.pairs import FORMS, form_of, values_at

PUBLISHED = {
    "pairs": {"source": "s", "target": "t"},
    "XSum": {"document": "s", "summary": "t", "id": "1"},
    "CNN/DailyMail": {"article": "s", "highlights": "t", "source": "some other thing"},
    "SAMSum": {"id": "1", "dialogue": "s", "summary": "t"},
    "DialogSum": {"fname": "test_0", "dialogue": "s", "summary1": "t", "topic1": "x", "summary2": "u"},
    "BookSum, chapters": {"chapter": "s", "summary_text": "t", "summary": "{}"},
    "BookSum, paragraphs": {"text": "s", "title": "x", "scores": [0.5], "summary": ["t"]},
    "SQuALITY": {"document": "s", "questions": [{"responses": [{"response_text": "t"}, {"response_text": "u"}]}]},
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_published_form_is_recognised_by_its_fields(name):
    row = PUBLISHED[name]
    form = form_of(row, "line 1", None, None)
    assert name in form.title
    assert values_at(row, form.source) == ["s"]
    assert next(value for path in form.targets for value in values_at(row, path)) in ("t", ["t"])


def test_each_form_has_a_row_above():
    assert {form_of(row, "", None, None) for row in PUBLISHED.values()} == set(FORMS)


def test_a_side_that_is_named_goes_before_the_form():
    row = {"article": "s", "highlights": "t", "title": "u"}
    assert form_of(row, "", None, "title").targets == ("title",)
    assert form_of(row, "", None, "title").source == "article"
    assert form_of({"a": "s"}, "", "a", "b").source == "a"  # what is named need not be there yet: a row says so


def test_an_unknown_form_says_what_was_looked_for_and_where_it_is_to_be_had():
    with pytest.raises(ValueError, match=r"gist\. Known"):
        form_of({"body": "s", "gist": "t"}, "line 1", None, None)
    with pytest.raises(ValueError, match=r"EdinburghNLP/xsum.*task\.source_field"):
        form_of({"document": "s", "summary": None}, "line 1", None, None)


def test_paths():
    row = {"a.b": 1, "a": {"b": 2, "c": [{"d": 3}, {"d": None}, {"e": 5}]}}
    assert values_at(row, "a.b") == [1]
    assert values_at(row, "a.c[].d") == [3, None]
    assert values_at(row, "a.c.1.d") == [None]
    assert values_at(row, "a.c.d") == values_at(row, "a[]") == values_at(row, "x.y") == values_at(row, "a.b.c") == []
