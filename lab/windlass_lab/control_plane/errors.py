"""The errors of the lab, each with advice.

WindlassError
└── LabError
    ├── PartsMissing     a program is neither in PATH nor cached, and cannot be built
    └── PlaneFailed      a program of the control plane did not start, or ended early
"""

from __future__ import annotations

from windlass.model.errors import WindlassError


class LabError(WindlassError):
    """The lab cannot do what was requested."""


class PartsMissing(LabError):
    """The programs of a control plane are not available on this machine."""


class PlaneFailed(LabError):
    """A program of the control plane does not run as it should; the end of its log is in
    the text."""
