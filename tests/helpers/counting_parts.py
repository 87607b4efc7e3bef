"""The counting task as a plug-in: for processes that must find it by the name of a module."""

from __future__ import annotations

from nextword.tasks import registry
from tests.helpers.counting_task import Counting

registry._entries.setdefault("counting", Counting)
