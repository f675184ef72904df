"""The nodes for one task: which fit, and how well.

Belongs here: everything that looks at all nodes for one shape of task, in arrays by slot. Does not
belong here: gangs as a whole (`placement`) and changes of the cluster (`draft`). No I/O.

    filter           cordon, taints, selectors and node affinity, as masks
    score            the key of a node: points, cost and rank in one integer
    devices          the choice of devices on a node, and its cost
    fragmentation    the cost of a place for the mix of requests that is expected
    node_index       the keys and the room of all nodes per shape, kept from a change log
    topology         domains of nodes, level by level
    bounds           proofs by sums that a gang cannot fit
    pod_affinity     rules about other tasks: affinity, anti-affinity, spread
"""

from windlass.engine.nodes import bounds
from windlass.engine.nodes.bounds import domains_with_room, why_never
from windlass.engine.nodes.devices import Condition, Conditions, DeviceChange, PlacementScorer
from windlass.engine.nodes.node_index import NodeIndex, ShapeIndex
from windlass.engine.nodes.pod_affinity import (
    can_bind_in_any_order,
    count_violated_nominations,
    one_by_one,
    overlay,
    placement_traits,
)
from windlass.engine.nodes.score import INFEASIBLE
from windlass.engine.nodes.topology import Topologies, TopologyLevel

__all__ = [
    "INFEASIBLE",
    "Condition",
    "Conditions",
    "DeviceChange",
    "NodeIndex",
    "PlacementScorer",
    "ShapeIndex",
    "Topologies",
    "TopologyLevel",
    "bounds",
    "can_bind_in_any_order",
    "count_violated_nominations",
    "domains_with_room",
    "one_by_one",
    "overlay",
    "placement_traits",
    "why_never",
]
