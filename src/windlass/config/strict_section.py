"""The base class of all sections of the configuration."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=253)]


class ConfigSection(BaseModel):
    """A section whose values are not converted, and whose unknown keys are errors."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True
    )
