"""The default behaviour of the fake kubelet, where a pod's annotations say nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Habits:
    """Delays, periods and choices, the same for all nodes."""

    starts_after_s: float = 0.0
    """The seconds from admission until the containers run."""
    terminates_after_s: float = 0.0
    """The seconds from a deletion until the containers have stopped."""
    kill_delay_s: float = 1.0
    """The seconds from the disappearance of a pod in the API server until its containers
    are dead."""
    restart_delay_s: float = 10.0
    """The seconds from the end of containers until their restart."""
    lease_period_s: float = 10.0
    lease_duration_s: int = 40
    devices_first: bool = False
    """Ask the device manager before counting, as kubelet 1.36 does: too many GPUs are then an
    UnexpectedAdmissionError. Otherwise they are OutOfnvidia.com/gpu, which tells a double
    booking from a device that failed meanwhile."""
    untaint: bool = False
    """Remove the not-ready taint of new nodes, for a control plane without controllers."""
    processes: int = 0
    """The number of pods that may really run at once, as processes of this machine; none by
    default."""
    in_flight: int = 16
    """The number of concurrent writes; more only lengthen the wait on a small machine."""
