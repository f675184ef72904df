"""The amount of GPU that a request takes on one kind of device, and what its queue pays for it.

Below everything else in the engine: the limits of queues (`queueing/limits.py`) and the choice of
devices (`nodes/devices.py`) must agree on these amounts. All of them are thousandths of a GPU
("milli"); 0 means that the request cannot use devices of the kind.
"""

from __future__ import annotations

from windlass.model.gpu.mig import milli_of_profile, offered_by
from windlass.model.gpus import WHOLE, GpuRequest, charge_for, milli_of_memory
from windlass.state.device_states import DeviceKind


def milli_on(request: GpuRequest, kind: DeviceKind) -> int:
    """Return the thousandths that one task takes in all on devices of a kind; 0 if it cannot."""
    if not request.profile:
        return request.count * share_on(request, kind)
    usable = kind.mig and _allows(request, kind) and request.profile in offered_by(kind.model)
    return request.count * milli_of_profile(kind.model, request.profile) if usable else 0


def charged_on(request: GpuRequest, kind: DeviceKind) -> int:
    """Return the charge of one task on devices of a kind; 0 if it cannot use them.

    It differs from `milli_on` where a device counts as a part of a GPU.
    """
    if request.profile or kind.charged_milli == WHOLE:
        return milli_on(request, kind)
    return request.count * charge_for(share_on(request, kind), kind.charged_milli)


def share_on(request: GpuRequest, kind: DeviceKind) -> int:
    """Return the thousandths requested of one device of a kind; 0 if the request cannot use it."""
    if kind.mig or not _allows(request, kind):
        return 0
    if not request.memory_mib:
        return request.milli
    if request.memory_mib > kind.memory_mib:
        return 0
    return min(milli_of_memory(request.memory_mib, kind.memory_mib), WHOLE)


def _allows(request: GpuRequest, kind: DeviceKind) -> bool:
    return not request.models or kind.model in request.models
