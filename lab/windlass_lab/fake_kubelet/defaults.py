"""How the fake kubelet behaves where a pod's annotations say nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Habits:
    """Delays, periods and choices, the same for all nodes."""

    starts_after_s: float = 0.0
    """From admission until the containers run."""
    terminates_after_s: float = 0.0
    """From a deletion until the containers have obeyed it."""
    kill_delay_s: float = 1.0
    """From noticing that a pod is gone from the API server until its containers are dead."""
    restart_delay_s: float = 10.0
    """From the end of containers that are to be restarted until they run again."""
    lease_period_s: float = 10.0
    lease_duration_s: int = 40
    devices_first: bool = False
    """Ask the device manager before counting, as kubelet 1.36 does: too many GPUs are then an
    UnexpectedAdmissionError. Otherwise they are OutOfnvidia.com/gpu, which tells a double booking
    from a device that failed meanwhile."""
    untaint: bool = False
    """Take away the not-ready taint of new nodes, for a control plane without controllers."""
    processes: int = 0
    """So many pods at once may really run, as processes of this machine; by default none may."""
    in_flight: int = 16
    """Writes at once; more only lengthen the wait on a small machine."""
