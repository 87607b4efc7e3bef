"""Shell completion of heads, metrics, recipes and tables. Their names are read without importing torch.

``nextword --install-completion`` installs the completion for bash, zsh, fish or PowerShell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nextword.cli.parts.catalogue import Catalogue


def _names(*rooms: str) -> list[str]:
    return list(Catalogue(*rooms).registered("registry"))


def _beginning(names: Iterable[str], incomplete: str, before: str = "") -> list[str]:
    return [before + name for name in names if name.startswith(incomplete)]


def _completing(room: str) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return _beginning(_names(room), incomplete)

    return complete


complete_head = _completing("nextword.heads")
complete_objective = _completing("nextword.objectives")
complete_conditioner = _completing("nextword.conditioning")
complete_task = _completing("nextword.experiments.tasks")


def complete_method(incomplete: str) -> list[str]:
    """Complete the text after the last slash of ``HEAD/OBJECTIVE/CONDITIONER``."""
    before, slash, last = incomplete.rpartition("/")
    rooms = ("nextword.heads", "nextword.objectives", "nextword.conditioning")
    depth = incomplete.count("/")
    return [] if depth >= len(rooms) else _beginning(_names(rooms[depth]), last, before + slash)


def complete_metric(incomplete: str) -> list[str]:
    """Complete a metric, or after a comma the next metric."""
    before, comma, last = incomplete.rpartition(",")
    return _beginning(
        ["all", *_names("nextword.evaluation.metrics", "nextword.evaluation.judges")], last, before + comma
    )


def complete_recipe(incomplete: str) -> list[str]:
    """Complete the name of a built-in recipe."""
    from nextword.experiments.comparison.comparison_settings import built_in

    return _beginning(built_in(), incomplete)


def complete_table(incomplete: str) -> list[str]:
    """Complete ``PAPER`` or ``PAPER/TABLE``."""
    from nextword.experiments.reproduction.paper import load_paper, names

    known = [full for name in names() for full in (name, *(f"{name}/{table}" for table in load_paper(name).tables))]
    return _beginning(known, incomplete)
