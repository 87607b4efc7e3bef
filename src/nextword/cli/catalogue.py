"""What is registered, read from the sources of a package without importing it, so that a list waits for no torch.

Only what is written down as such is read: the registering decorator, the docstring, the names of fields, and the
:class:`~nextword.heads.parts.modifiers.Part` of a modifier. The tests hold it to what the registries say.
"""

from __future__ import annotations

import ast
import inspect
from importlib.util import find_spec
from pathlib import Path


class Catalogue:
    """The classes that packages define, by name.

    Args:
        packages: Dotted names.

    Example:
        >>> heads = Catalogue("nextword.heads")
        >>> heads.registered("registry")["ps"]
        'PointerSentinelHead'
        >>> "mi" in heads.settings("PointerSentinelHead")
        True
    """

    def __init__(self, *packages: str) -> None:
        self._classes = {
            statement.name: statement
            for package in packages
            for path in _sources(package)
            for statement in ast.parse(path.read_text(encoding="utf-8")).body
            if isinstance(statement, ast.ClassDef)
        }

    def registered(self, registry: str) -> dict[str, str]:
        """Registered name to name of the class, for classes below ``@{registry}.register("name")``."""
        found = {}
        for name, definition in self._classes.items():
            for decorator in definition.decorator_list:
                match decorator:
                    case ast.Call(
                        func=ast.Attribute(value=ast.Name(id=by), attr="register"), args=[ast.Constant(value=str(key))]
                    ) if by == registry:
                        found[key] = name
        return dict(sorted(found.items()))

    def docstring(self, name: str) -> str:
        """The docstring of a class, without its indentation."""
        return inspect.cleandoc(ast.get_docstring(self._classes[name], clean=False) or "")

    def settings(self, name: str) -> frozenset[str]:
        """Names of the fields of a class's ``Config``."""
        for statement in self._classes[name].body:
            match statement:
                case ast.Assign(targets=[ast.Name(id="Config")], value=ast.Name(id=config)):
                    return self._fields(config)
        return frozenset()

    def parts(self, name: str) -> list[tuple[str, ...]]:
        """What each ``Part`` of a modifier was given: name, meaning, example, page."""
        return [
            tuple(str(ast.literal_eval(argument)) for argument in call.args)
            for call in ast.walk(self._classes[name])
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Part"
        ]

    def _fields(self, name: str) -> frozenset[str]:
        """Annotated names of a class and of those it is made from, as far as the packages define them."""
        if name not in self._classes:
            return frozenset()
        definition = self._classes[name]
        fields = {
            statement.target.id
            for statement in definition.body
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        }
        bases = [base.id for base in definition.bases if isinstance(base, ast.Name)]
        return frozenset(fields).union(*map(self._fields, bases))


def _sources(package: str) -> list[Path]:
    spec = find_spec(package)
    assert spec is not None
    return [path for folder in spec.submodule_search_locations or () for path in sorted(Path(folder).rglob("*.py"))]
