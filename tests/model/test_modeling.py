"""One pass is a straight line of frozen values: what leads calls each step once, and no step calls back."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

import nextword as nw
from nextword.model import modeling
from tests.helpers.conditioned_models import conditioned, texts
from tests.helpers.families import tiny

ROOM = Path(modeling.__file__).parent
CACHE = ROOM / "head_cache"
"""What is kept between passes: it answers questions of many steps."""
LEADING = "modeling"
IDS = torch.randint(3, 20, (2, 9), generator=torch.Generator().manual_seed(0))
BATCH = ["forward_batch"]
RUN = ["backbone", "backbone", "head_inputs"]
LOSS = ["backbone"]
UPDATE = ["sequence_update"]
SHAPES = re.compile(r"jaxtyping|beartype")
"""Files of what checks shapes, which stands between a caller and whom it calls."""


def steps(call: Callable[[], Any]) -> list[tuple[str, str]]:
    """Every call of a function from one file of model/ into another, as (caller, called), by their stems.

    Of methods only those count that lead: the methods of a value read it, those of other classes answer a question.
    """
    found: list[tuple[str, str]] = []

    def look(frame: FrameType, event: str, _: Any) -> None:
        path, caller = Path(frame.f_code.co_filename), frame.f_back
        while caller is not None and SHAPES.search(caller.f_code.co_filename):
            caller = caller.f_back
        if event != "call" or caller is None or not path.is_relative_to(ROOM) or path.is_relative_to(CACHE):
            return
        called_from, name = Path(caller.f_code.co_filename), frame.f_code.co_qualname
        is_step = ("." not in name and name[0] != "<") or name.startswith("NextWordModel.")
        if is_step and called_from.is_relative_to(ROOM) and called_from != path:
            found.append((called_from.stem, path.stem))

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def led(found: list[tuple[str, str]]) -> list[str]:
    """What the leading file calls, in order."""
    return [called for caller, called in found if caller == LEADING]


@pytest.mark.few(1)
@pytest.mark.parametrize("family", ["gpt2", "t5"])
@pytest.mark.parametrize("head", ["softmax", "cache", "softmax+r:3+mi"])
def test_each_step_is_called_once(family: str, head: str) -> None:
    model = nw.attach(tiny(family), head)
    decoder = {"decoder_input_ids": IDS} if family == "t5" else {}
    model(IDS, **decoder)  # what is proved once is behind it
    without, scored = steps(lambda: model(IDS, **decoder)), steps(lambda: model(IDS, labels=IDS))
    trained = steps(lambda: model.train()(IDS, labels=IDS))
    assert led(without) == BATCH + RUN
    assert led(scored) == BATCH + RUN + LOSS
    assert led(trained) == BATCH + RUN + LOSS
    # what a step calls itself are rooms that no other step enters
    beneath = [(caller, called) for caller, called in trained if caller != LEADING]
    check, packing, size = (
        ("forward_batch", "argument_checks"),
        ("forward_batch", "packing"),
        ("forward_batch", "output_layer"),
    )
    ids = [check] * (2 if family == "t5" else 1)
    assert beneath == [check, packing, *ids, size, check, ("backbone", "output_layer")]
    assert led(steps(lambda: model.eval().distribution(IDS, **decoder)))[: len(BATCH + RUN)] == BATCH + RUN


@pytest.mark.slow
def test_a_sequence_update_is_the_line_again_with_what_was_written() -> None:
    model = nw.attach(tiny("gpt2"), "cache", "mle+seq:1,3x4").train()
    model(IDS, labels=IDS)
    found = [(caller, called) for caller, called in steps(lambda: model(IDS, labels=IDS)) if caller != "generation"]
    writing = led(steps(lambda: model.eval().generate(IDS[:, :3], max_new_tokens=4, do_sample=False)))
    assert led(found) == BATCH + UPDATE * 2 + writing + BATCH + RUN + LOSS


@pytest.mark.few(1)
@pytest.mark.parametrize("conditioner", [None, "dau", "bergpt", "prefix:3"])
def test_no_step_calls_what_leads(conditioner: str | None) -> None:
    model = nw.attach(tiny("gpt2"), "cache") if conditioner is None else conditioned(tiny("gpt2"), "cache", conditioner)
    given = {} if conditioner is None else texts()
    model(IDS, **given)
    found = steps(lambda: model(IDS, labels=IDS, **given)) + steps(lambda: model.generate(IDS, max_length=12, **given))
    assert found
    assert not [(caller, called) for caller, called in found if called == LEADING]


IN_PLACE = {"pop", "popitem", "update", "setdefault", "clear", "__setitem__", "__delitem__"}


def changed_arguments(tree: ast.AST) -> Iterator[str]:
    """Where a function changes a mapping that it was handed; its own ``**kwargs`` are a copy."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        handed = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        names = {argument.arg for argument in handed} - {"self", "cls"}
        for node in ast.walk(function):
            targets: list[ast.expr] = []
            if isinstance(node, ast.Assign | ast.Delete):
                targets = [target.value for target in node.targets if isinstance(target, ast.Subscript)]
            elif isinstance(node, ast.AugAssign):
                is_merged = isinstance(node.op, ast.BitOr)
                target = node.target
                targets = [target.value] if isinstance(target, ast.Subscript) else [target] if is_merged else []
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in IN_PLACE:
                targets = [node.func.value]
            for target in targets:
                if isinstance(target, ast.Name) and target.id in names:
                    yield f"{function.name} changes {target.id}"


def unfrozen_values(tree: ast.AST) -> Iterator[str]:
    """Dataclasses that may be changed."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for decorator in node.decorator_list:
                text = ast.unparse(decorator)
                if "dataclass" in text and "frozen=True" not in text:
                    yield node.name


def test_no_function_changes_what_it_is_handed() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in ROOM.rglob("*.py")}
    assert len(trees) > 20
    assert not [f"{path.name}: {what}" for path, tree in trees.items() for what in changed_arguments(tree)]
    assert not [f"{path.name}: {what}" for path, tree in trees.items() for what in unfrozen_values(tree)]


@pytest.mark.parametrize(
    "line",
    [
        "inputs.pop('labels')",
        "inputs['use_cache'] = False",
        "inputs |= {'use_cache': False}",
        "inputs['places'] += 1",
        "del inputs['labels']",
        "inputs.setdefault('use_cache', False)",
        "def inner():\n        inputs.update(labels=None)",
    ],
)
def test_planted_change_is_found(line: str) -> None:
    assert set(changed_arguments(ast.parse(f"def f(model, inputs):\n    {line}"))) == {"f changes inputs"}
    assert not list(changed_arguments(ast.parse(f"def f(model, **inputs):\n    {line}")))
    assert not list(changed_arguments(ast.parse(f"def f(model):\n    inputs = {{}}\n    {line}")))


def test_planted_value_that_may_change_is_found() -> None:
    assert list(unfrozen_values(ast.parse("@dataclass\nclass A:\n    a: int"))) == ["A"]
    assert list(unfrozen_values(ast.parse("@dataclasses.dataclass(slots=True)\nclass A:\n    a: int"))) == ["A"]
    assert not list(unfrozen_values(ast.parse("@dataclass(frozen=True)\nclass A:\n    a: int")))


def test_a_pass_writes_nothing_into_the_configuration() -> None:
    config = nw.attach(tiny("t5"), "softmax+mi").config
    config.state_scale = None  # as of a model that was made of a configuration
    model = nw.NextWordForSeq2SeqLM(config).eval()
    before = model.config.to_dict()
    model(IDS, labels=IDS).loss.backward()
    assert model.config.to_dict() == before
    assert model.state_scale == pytest.approx(32**-0.5)
