from __future__ import annotations

import numpy as np
import pytest

from nextword.inference.scoring.breakdowns import FrequencyBands
from tests.helpers.token_rows import token_row


def test_bands_go_by_the_share_of_all_tokens() -> None:
    # 40, 70 and 90 % of 10: the token of 4 is frequent, that of 3 medium, that of 2 rare, that of 1 very rare
    bands = FrequencyBands(np.array([0, 4, 3, 2, 1]), "a corpus")
    names = [bands.names[code] for code in bands.codes(token_row([1, 2, 3, 4, 0, 99]))]
    assert names == ["frequent", "medium", "rare", "very rare", "never counted", "never counted"]


def test_special_tokens_are_a_group_of_their_own() -> None:
    row = token_row([5] * 9 + [6, 7])
    row.is_special[10] = True
    bands = FrequencyBands(np.bincount(row.target[:10]), "a corpus")
    names = [bands.names[code] for code in bands.codes(row)]
    assert names == ["frequent"] * 9 + ["very rare", "special tokens"]


def test_counts_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="frequency groups: counts must be"):
        FrequencyBands(np.array([0, 0]), "nothing")
