"""A made-up paper of one comparison that takes seconds, in place of the real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from nextword.experiments.reproduction import experiment, paper

PAPER = """
title = "Counting"
authors = "Nobody"
venue = "Nowhere 2020"

[tables.table-1]
title = "How likely the next number is"
place = "section 3"
experiment = "counting"

[[tables.table-1.columns]]
title = "nll"
unit = "nats"
measure = "nll"
better = "lower"

[[tables.table-1.columns]]
title = "Parameters"
group = "Size"
unit = "thousands"
measure = "cost.parameters"
factor = 0.001

[[tables.table-1.columns]]
title = "Learning rate"
measure = "setting.training.learning_rate"

[[tables.table-1.rows]]
title = "Softmax"
method = "softmax"
values = [2.5, 100.0, nan]

[[tables.table-1.rows]]
title = "Cache"
method = "cache"
values = [1.5, 100.5, nan]
spreads = [0.1, nan, nan]

[[tables.table-1.rows]]
title = "A large one"
method = "softmax"
experiment = "counting-large"
values = [1.0, 9000.0, nan]

[[tables.table-1.claims]]
text = "A cache is better than a softmax."
headline = true
comparisons = [{ row = "Cache", than = "Softmax", column = "nll" }]

[[tables.table-1.claims]]
text = "A large one is better than a small one."
comparisons = [{ row = "A large one", than = "Softmax", column = "nll" }]

[tables.table-2]
title = "Hyper-parameters"
place = "section 5"
kind = "settings"
experiment = "counting"
columns = [{ title = "value" }]
rows = [
    { title = "steps", measure = "setting.training.steps", values = [1000.0] },
    { title = "rows", measure = "data.rows", values = [5000.0] },
]

[tables.table-3]
title = "What people said"
place = "section 6"
kind = "human"
columns = [{ title = "better" }]
rows = [{ title = "Cache", values = [60.0] }]
claims = [{ text = "People like it.", not_testable = { small = "it wants people", paper = "it wants people" } }]
"""

EXPERIMENTS = """
[counting]
title = "Counting"

[counting.small]
recipe = "RECIPE"
differs = ["A tiny model stands for a large one."]

[again]
title = "Counting again"

[again.small]
recipe = "RECIPE"
start = "counting"

[counting-large]
title = "Counting, large"

[counting-large.paper]
recipe = "RECIPE"
differs = ["The order of the numbers is not stated."]
"""

RECIPE = """
seeds = [0, 1]

[task]
name = "counting"

[training]
steps = 2
learning_rate = 0.01

[[methods]]
head = "softmax"

[[methods]]
head = "cache"
"""


def install(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Puts the paper and its experiments in place of the real ones, until ``patch`` is undone."""
    (folder / "papers").mkdir()
    (folder / "papers" / "counting.toml").write_text(PAPER)
    (folder / "recipe.toml").write_text(RECIPE)
    (folder / "experiments.toml").write_text(EXPERIMENTS.replace("RECIPE", str(folder / "recipe.toml")))
    patch.setattr(paper, "FOLDER", folder / "papers")
    patch.setattr(experiment, "FILE", folder / "experiments.toml")
    paper.load_paper.cache_clear()
    experiment.known_experiments.cache_clear()


def forget() -> None:
    """The real ones again, once the patch is undone."""
    paper.load_paper.cache_clear()
    experiment.known_experiments.cache_clear()
