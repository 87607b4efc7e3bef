from __future__ import annotations

from collections import Counter

import pytest

from nextword.experiments.tasks.expand import with_other_summaries
from nextword.experiments.tasks.expand_rows import Beginning


def beginnings(*texts):
    return [Beginning(number, summary, [number], [1], 1, article) for number, (summary, article) in enumerate(texts)]


def test_everybody_gets_another_article_s_summary():
    given = beginnings(*[(f"summary {number}", f"article {number}") for number in range(7)])
    others = with_other_summaries(given, seed=0)
    assert [one.article for one in others] == [one.article for one in given]
    assert Counter(one.summary for one in others) == Counter(one.summary for one in given)
    for one, other in zip(given, others, strict=True):
        assert one.summary != other.summary
        assert other.prompt == [int(other.summary.split()[1])]
    assert with_other_summaries(given, seed=0) == others
    assert any(with_other_summaries(given, seed=seed) != others for seed in (1, 2, 3))


def test_pairs_that_share_an_article_or_a_summary_do_not_swap():
    given = beginnings(("a", "x"), ("b", "x"), ("c", "y"), ("c", "z"))
    for seed in range(20):
        others = with_other_summaries(given, seed)
        assert {one.summary for one in others[:2]} == {"c"}
        assert {one.summary for one in others[2:]} == {"a", "b"}
    with pytest.raises(ValueError, match="another article's summary"):
        with_other_summaries(given[:3], 0)
    with pytest.raises(ValueError, match="each of the 1 test articles must get"):
        with_other_summaries(given[:1], 0)
