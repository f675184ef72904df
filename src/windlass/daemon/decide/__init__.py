"""Decides what the daemon writes: one step from inputs to writes.

Here belongs what the leader decides and remembers besides the engine's plan. Requests to the API
server (`kube.writers`), waiting (`daemon.loop`) and serving (`daemon.serving`) do not belong here.
The package is pure: it does no I/O, and time enters as `now`.

    step                 one step: its phases in order, and all that is to be written after it
    inputs               observed objects and results of writes, and the events that they become
    evictions            the victims of a plan: pod by pod, or through their owner
    nominations          promised places, and places whose bind has failed
    suspended_gangs      owners that are resumed, and places held for their pods
    checkpoint_requests  checkpoint requests to write and to withdraw
    checkpoint_answers   answers of pods, and which are accepted
    stuck_pods           pods that do not terminate in time
    quarantine           quarantine marks on nodes
    gpu_health           DCGM exporters to scrape, and their readings
    queue_status         the status of Queue objects, with the usage ledger
    gang_status          the status of Gang objects
    finished_gangs       gangs that have ended, for the dashboard
    pod_refs             the pods behind tasks
"""

from windlass.daemon.decide.inputs import StepInput
from windlass.daemon.decide.step import SchedulerStep, StepOutput

__all__ = ["SchedulerStep", "StepInput", "StepOutput"]
