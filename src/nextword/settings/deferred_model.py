"""What settings and records have in common: strict, frozen, and built when first used."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class DeferredModel(BaseModel):
    """Unknown keys are errors, values are not coerced, nothing changes afterwards.

    Schemas are built when first used: many classes are defined by an import, few of them are filled.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    @classmethod
    def model_rebuild(cls, **options: Any) -> bool | None:
        """Builds the schema from the names of the class's module alone.

        pydantic also reads the local names of whoever made the first instance, which are none of ours. On Python
        3.13.0 reading them ends the process.
        """
        return super().model_rebuild(**{**options, "_parent_namespace_depth": 0})
