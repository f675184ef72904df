"""Checks of input: snapshots, scenarios and manifests.

Belongs here: every rule that a described cluster must follow, each as a problem with a path and a
sentence that says what to change. The engine relies on these checks and repeats none. Does not
belong here: reading files, and turning a path into a line of a file. Pure.

    cluster    the whole description: order of checks, nodes, topologies, settings, holds
    queues     the queue tree and its amounts
    jobs       gangs, tasks and the places of running tasks
    shapes     the requests and constraints of tasks
    problems   the type of a problem, and the small checks that all others share
"""

from windlass.model.validation.cluster import check
from windlass.model.validation.jobs import check_complete
from windlass.model.validation.problems import (
    LONGEST_NAME,
    InputProblem,
    Path,
    amount_in_words,
    is_dimension,
    join_names,
    unknown_dimension,
)
from windlass.model.validation.queues import MOST_WEIGHT, check_queues
from windlass.model.validation.shapes import check_shape

__all__ = [
    "LONGEST_NAME",
    "MOST_WEIGHT",
    "InputProblem",
    "Path",
    "amount_in_words",
    "check",
    "check_complete",
    "check_queues",
    "check_shape",
    "is_dimension",
    "join_names",
    "unknown_dimension",
]
