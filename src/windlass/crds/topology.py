"""`Topology`: the labels of nodes that say which of them share a fast link."""

from __future__ import annotations

from pydantic import Field

from windlass.crds.base import AS_SET, CrdModel, LabelKey


class TopologySpec(CrdModel):
    """Levels of closeness."""

    levels: list[LabelKey] = Field(min_length=1, max_length=16, json_schema_extra=AS_SET)
    """Label keys of the nodes, the widest first: zone, block, rack, NVLink domain."""
