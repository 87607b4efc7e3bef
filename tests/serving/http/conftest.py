"""A small model that is served."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.helpers.running_server import Running, running, small_model


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    """A server of a model with a cache."""
    with running(small_model()) as found:
        yield found


@pytest.fixture(scope="module")
def talking() -> Iterator[Running]:
    """One whose tokenizer has a chat template, which joins what was said."""
    opened = small_model()
    tokenizer = copy.deepcopy(opened.tokenizer)
    tokenizer.chat_template = (
        "{% for m in messages %}{{ raise_exception('no robots') if m['role'] == 'robot' }}{{ m['content'] }}"
        "{% endfor %}{{ tail }}"
    )
    with running(replace(opened, tokenizer=tokenizer)) as found:
        yield found
