"""The gang of a pod, worked out once for stand-ins that share one object."""

from __future__ import annotations

from windlass.kube.ingest.owners import Owners
from windlass.workloads.kinds.table import Kinds, Membership, membership
from windlass.workloads.objects.wire import Pod


class MembershipCache:
    """Answers for the pod that was asked about last without climbing its owners again."""

    def __init__(self, owners: Owners, kinds: Kinds) -> None:
        self._owners, self._kinds = owners, kinds
        self._last: tuple[Pod, int, Membership] | None = None

    def of(self, pod: Pod) -> Membership:
        """The gang that a pod belongs to, with the owners that have been seen so far."""
        version = self._owners.version
        if self._last is not None and self._last[0] is pod and self._last[1] == version:
            return self._last[2]
        found = membership(pod, self._owners.find, self._kinds)
        self._last = pod, version, found
        return found
