"""Random settings of any class of settings, for tests of properties that hold for all of them."""

from __future__ import annotations

import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

TEXT = st.one_of(
    st.sampled_from(["gpt2", "Runs/a.npz", "none", "true", "7", "1e5", "inf", "a,b+c=d", "[x]", 'say "x"', "", " x "]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)


def settings_of(model: type[BaseModel], fixed: dict[str, Any]) -> st.SearchStrategy[BaseModel]:
    """Settings of this class that it takes, each at random or as it is by default."""
    fields = {
        name: st.one_of(st.just(...), _of(field.annotation, [*field.metadata]))
        for name, field in model.model_fields.items()
        if name not in fixed
    }

    def made(values: dict[str, Any]) -> BaseModel | None:
        try:
            return model.model_validate(
                {**fixed, **{name: value for name, value in values.items() if value is not ...}}
            )
        except ValidationError:
            return None  # settings that do not go together

    return st.fixed_dictionaries(fields).map(made).filter(lambda config: config is not None)


def _of(annotation: Any, limits: list[Any]) -> st.SearchStrategy[Any]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _of(arguments[0], [*limits, *arguments[1:]])
    if origin in (Union, types.UnionType):
        return st.one_of([_of(one, limits) for one in arguments])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is list:
        return st.lists(_of(arguments[0], []), min_size=1, max_size=3)
    if origin is dict:
        return st.nothing()  # settings that are written out: those of the spec beside them in the union
    if origin is tuple:
        if arguments[1:] == (...,):
            return st.lists(_of(arguments[0], []), min_size=1, max_size=3).map(tuple)
        return st.tuples(*[_of(one, []) for one in arguments])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return settings_of(annotation, {})
    if annotation is type(None):
        return st.none()
    if annotation is bool:
        return st.booleans()
    if annotation is str:
        return TEXT
    below = {
        name: getattr(limit, name) for limit in limits for name in ("ge", "gt", "le", "lt") if hasattr(limit, name)
    }
    least, most = below.get("ge", below.get("gt", -(2**20))), below.get("le", below.get("lt", 2**20))
    if annotation is int:
        return st.integers(least, min(most, least + 2**20))
    assert annotation is float, annotation
    return st.floats(least, most, exclude_min="gt" in below, exclude_max="lt" in below)
