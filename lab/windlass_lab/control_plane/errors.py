"""What can go wrong with the lab, each told so that the reader can mend it.

WindlassError
└── LabError
    ├── PartsMissing     a program is neither in PATH nor cached, and cannot be built
    └── PlaneFailed      a program of the control plane did not start, or ended early
"""

from __future__ import annotations

from windlass.model.errors import WindlassError


class LabError(WindlassError):
    """The lab cannot do what was asked."""


class PartsMissing(LabError):
    """The programs of a control plane cannot be had on this machine."""


class PlaneFailed(LabError):
    """A program of the control plane does not run as it should; its last words are in the text."""
