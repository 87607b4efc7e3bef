"""Parameters of a head put into the textbook formula that it is tested against; what several test files need."""

from __future__ import annotations

from torch import Tensor

from nextword.heads import Head
from tests.oracles.textbook import heads as textbook
from tests.oracles.textbook import pointers
from tests.oracles.textbook_cases import Case


def log_softmax(head: Head, case: Case) -> Tensor:
    """Of a softmax head, projected or not, (B, T, V)."""
    if head.is_identity:
        return textbook.log_softmax(textbook.scores(case.layers[0], case.weight))
    return textbook.log_softmax(projected_scores(head, case))


def projected_scores(head: Head, case: Case) -> Tensor:
    """What a head with one projection scores the vocabulary with, (B, T, V)."""
    states = textbook.project(case.text(head).inputs, head.project.weight, head.project.bias)
    return textbook.scores(states, case.weight)


def gate(head: Head, case: Case) -> Tensor:
    """Weights of the components of a mixture, (B, T, K)."""
    inputs = case.text(head).inputs
    if head.config.gate == "dynamic":
        return textbook.dynamic_gate(inputs, head.gate.linear.weight, head.gate.linear.bias)
    if head.config.gate == "static":
        return textbook.static_gate(head.gate.scores, case.ids.shape)
    return textbook.uniform_gate(head.config.components, inputs)


def pointed_at(head: Head, case: Case) -> tuple[Tensor, pointers.Places]:
    """Queries of a pointer head, (B, T, K), and the places that each of them may point at."""
    text, source = case.text(head), case.source(head)
    keys = head.local.key.weight, head.local.key.bias
    if source is None:
        positions = pointers.past(text, keys, head.config.include_current)
    else:
        positions = pointers.source(text, source, keys)
    return textbook.project(text.inputs, head.local.query.weight, head.local.query.bias), positions


def pointer_gate(head: Head, case: Case) -> Tensor:
    """The gate of a pointer generator or sentinel before its nonlinearity, (B, T)."""
    return textbook.project(case.layers[0], head.gate.weight, head.gate.bias)[..., 0]
