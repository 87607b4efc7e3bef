from __future__ import annotations

from types import SimpleNamespace

import pytest
from pydantic import BaseModel

from nextword.tasks.parts.cache_tuning import TEMPERATURES, WEIGHTS, tune_cache


class CacheConfig(BaseModel):
    temperature: float = 1.0
    weight: float | None = None


class Settable:
    def __init__(self) -> None:
        self.next_word_head = SimpleNamespace(config=CacheConfig())

    def configure_head(self, temperature: float, weight: float | None) -> None:
        self.next_word_head.config = CacheConfig(temperature=temperature, weight=weight)


@pytest.mark.parametrize("best", [(2.0, 0.2), (1.0, None), (TEMPERATURES[-1], WEIGHTS[-1])])
def test_finds_the_best_of_the_grid_and_leaves_the_model_with_it(best: tuple[float, float | None]) -> None:
    model = Settable()

    def nll() -> float:
        config = model.next_word_head.config
        return 1.0 if (config.temperature, config.weight) == best else 2.0

    assert tune_cache(model, nll) == {"temperature": best[0], "weight": best[1]}
    assert (model.next_word_head.config.temperature, model.next_word_head.config.weight) == best


def test_settings_without_a_likelihood_are_passed_over() -> None:
    model = Settable()
    values = iter([float("nan"), float("inf"), 3.0, *[4.0] * 100])
    assert tune_cache(model, lambda: next(values)) == {"temperature": TEMPERATURES[0], "weight": WEIGHTS[2]}
    with pytest.raises(ValueError, match="no temperature and weight gives a finite likelihood"):
        tune_cache(model, lambda: float("inf"))
