"""Finds registered classes by parsing source files instead of importing them, so that torch is not imported.

Our own packages and the plug-ins of other packages are parsed in the same way. A class is found only if its decorator
is a literal ``@registry.register("name")`` and its module imports or defines ``registry``. The class's docstring, the
names of its settings, and the ``ModifierEntry`` of a modifier are read. Tests compare the result with the registries
after an import.
"""

from __future__ import annotations

import ast
import inspect
import logging
from dataclasses import dataclass
from functools import cached_property

from nextword.settings.plugins import Plugin, plugins, sources

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Module:
    """A parsed source file of this package or of a plug-in."""

    tree: ast.Module
    plugin: Plugin | None = None

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """Mapping from the name of each class to its definition."""
        return {statement.name: statement for statement in self.tree.body if isinstance(statement, ast.ClassDef)}

    @cached_property
    def imported(self) -> dict[str, str]:
        """Mapping from imported name to full dotted name, such as ``registry`` to ``nextword.heads.head.registry``."""
        names: dict[str, str] = {}
        for statement in ast.walk(self.tree):
            if isinstance(statement, ast.Import):
                for alias in statement.names:
                    top = alias.name.partition(".")[0]
                    names[alias.asname or top] = alias.name if alias.asname else top
            elif isinstance(statement, ast.ImportFrom):
                for alias in statement.names:
                    names[alias.asname or alias.name] = f"{statement.module}.{alias.name}"
        return names

    def full_name(self, expression: ast.expr) -> str:
        """The full dotted name of an expression. ``""`` if the expression is not a name."""
        match expression:
            case ast.Name(id=name):
                return self.imported.get(name, name)
            case ast.Attribute(value=value, attr=attribute):
                return f"{self.full_name(value)}.{attribute}"
        return ""


@dataclass(frozen=True)
class CatalogueEntry:
    """A registered class and its source file."""

    module: Module
    definition: ast.ClassDef

    @property
    def origin(self) -> str | None:
        """Name of the plug-in that defines the class. None for a class of this package."""
        return None if self.module.plugin is None else self.module.plugin.origin

    @property
    def docstring(self) -> str:
        """The docstring of the class, without its indentation."""
        return inspect.cleandoc(ast.get_docstring(self.definition, clean=False) or "")

    @property
    def field(self) -> str:
        """Name of the config field that a modifier sets; ``""`` for a class that is not a modifier."""
        for statement in self.definition.body:
            match statement:
                case (
                    ast.AnnAssign(target=ast.Name(id="field"), value=ast.Constant(value=str(name)))
                    | ast.Assign(targets=[ast.Name(id="field")], value=ast.Constant(value=str(name)))
                ):
                    return name
        return ""

    @property
    def modifier_entries(self) -> list[tuple[str, ...]]:
        """Name, meaning, example and page of each ``ModifierEntry`` of a modifier."""
        return [
            tuple(str(ast.literal_eval(argument)) for argument in call.args)
            for call in ast.walk(self.definition)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "ModifierEntry"
        ]


class Catalogue:
    """Registered classes of one kind, for example all heads.

    Args:
        room: Package of the registry, such as ``nextword.heads``.
        also: Further packages of nextword whose classes are in the registry.

    Examples:
        >>> heads = Catalogue("nextword.heads")
        >>> heads.registered("registry")["ps"].definition.name
        'PointerSentinelHead'
        >>> "mi" in heads.settings(heads.registered("registry")["ps"])
        True
    """

    def __init__(self, room: str, *also: str) -> None:
        self._room = room
        own = [Module(tree) for package in (room, *also) for tree in _trees(package)]
        self._modules = [*own, *(Module(tree, plugin) for plugin in plugins() for tree in _trees_of(plugin))]

    def registered(self, registry: str) -> dict[str, CatalogueEntry]:
        """Mapping from name to entry, for all classes decorated with ``@{registry}.register("name")``.

        If a plug-in registers a name that this package uses, the plug-in's class is left out.
        """
        found: dict[str, CatalogueEntry] = {}
        for module in self._modules:
            for definition in module.classes.values():
                for decorator in definition.decorator_list:
                    match decorator:
                        case ast.Call(
                            func=ast.Attribute(value=value, attr="register"), args=[ast.Constant(value=str(name))]
                        ):
                            full = module.full_name(value)
                            # the name is not imported, so the registry is defined in this file
                            made_here = full == registry and module.plugin is None
                            if made_here or self._is_ours(full, registry):
                                found.setdefault(name, CatalogueEntry(module, definition))
        return dict(sorted(found.items()))

    def settings(self, entry: CatalogueEntry) -> frozenset[str]:
        """Names of the fields of the entry's ``Config``, including inherited ones."""
        for statement in entry.definition.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id="Config")], value=ast.Name(id=config)):
                    return self._fields(entry.module, config)
        return frozenset()

    def _is_ours(self, full_name: str, registry: str) -> bool:
        return full_name.startswith(f"{self._room}.") and full_name.endswith(f".{registry}")

    def _fields(self, module: Module, name: str) -> frozenset[str]:
        home = next((one for one in (module, *self._modules) if name in one.classes), None)
        if home is None:
            return frozenset()
        definition = home.classes[name]
        fields = {
            statement.target.id
            for statement in definition.body
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        }
        bases = [base.id for base in definition.bases if isinstance(base, ast.Name)]
        return frozenset(fields).union(*(self._fields(home, base) for base in bases))


def _trees(module: str) -> list[ast.Module]:
    return [ast.parse(path.read_text(encoding="utf-8")) for path in sources(module)]


def _trees_of(plugin: Plugin) -> list[ast.Module]:
    # the parsed files of a plug-in; empty, with a warning, if its sources cannot be read
    try:
        trees = _trees(plugin.module)
    except (OSError, ValueError, SyntaxError) as fault:
        logger.warning(
            "%s: its classes are not listed, because the source '%s' cannot be read (%s)",
            plugin.origin,
            plugin.module,
            fault,
        )
        return []
    if not trees:
        logger.warning(
            "%s: its classes are not listed, because the module '%s' has no source files", plugin.origin, plugin.module
        )
    return trees
