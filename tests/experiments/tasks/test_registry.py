"""What is registered as a task."""

from __future__ import annotations

import pytest

from nextword.experiments.tasks import Data, Measures, Start, Task, Writes, registry


def test_a_task_is_one_file_of_its_name() -> None:
    for name in registry.names():
        file = {"continue": "continuation"}.get(name, name.replace("-", "_"))  # a word of Python names no module
        assert registry.get(name).__module__ == f"nextword.experiments.tasks.{file}"
        assert registry.get(name).name == name


@pytest.mark.parametrize("name", registry.names())
def test_a_task_is_one_class_of_parts(name: str) -> None:
    task = registry.get(name)
    assert issubclass(task, Task)
    methods = {
        key for key in vars(task) if callable(getattr(task, key)) and not key.startswith("_") and key != "Config"
    }
    assert methods <= {"check"}, f"{name}: a task has parts; put {methods} into one of them"
    assert task.version >= 1
    assert set(task.training_defaults) >= {"batch_size", "learning_rate"}


def test_each_part_asks_for_little() -> None:
    needed = {part: set(part.__abstractmethods__) for part in (Data, Start, Measures, Writes)}
    assert needed == {
        Data: {"describe", "training", "validation"},
        Start: {"tokenizer", "pretraining"},
        Measures: {"evaluate"},
        Writes: {"write"},
    }
