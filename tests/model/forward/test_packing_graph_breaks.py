"""A compiled pass with labels leaves its graph at the places named here, and learns what an uncompiled one learns."""

from __future__ import annotations

import pytest

from nextword.model.forward.packing import LOSS, SEQUENCE_UPDATE
from tests.helpers import compiled_losses
from tests.helpers.compiled_losses import FEW, OTHERS
from tests.helpers.own_process import printed

LEAVES = {
    "gpt2 softmax/unlikelihood+seq, tokens": [LOSS, SEQUENCE_UPDATE],
    "gpt2 softmax/unlikelihood+seq, sequences": [SEQUENCE_UPDATE],
}
"""Where a pass leaves its graph, once at each place; every other one does so for its loss alone."""


@pytest.mark.slow
@pytest.mark.parametrize("case", [*FEW, *OTHERS])
def test_a_pass_with_labels_leaves_its_graph_at_the_named_places_only(case: str) -> None:
    result = printed(compiled_losses.__name__, "few" if case in FEW else case)[case]
    leaves = LEAVES.get(case, [LOSS])
    assert result["breaks"] == dict.fromkeys(leaves, 1)
    # one graph before each break, none after the last; none is made anew for a batch with other padding
    assert result["graphs"] == [len(leaves)] * 2
    assert result["gap"] < 1e-10
