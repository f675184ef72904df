"""Claims, volumes, classes and limits by chance, for some pods of a case.

Bound claims are written as the volume controller leaves them. A claim that waits for its pod cannot
be satisfied here, since nobody makes volumes; the node that a scheduler writes on it says enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

Json = dict[str, Any]

CASE = "judge"
"""The label by which the objects of a case are found again."""
PATHS = {
    "storageclasses": "/apis/storage.k8s.io/v1/storageclasses",
    "csidrivers": "/apis/storage.k8s.io/v1/csidrivers",
    "csicapacities": "/apis/storage.k8s.io/v1/namespaces/{}/csistoragecapacities",
    "csinodes": "/apis/storage.k8s.io/v1/csinodes",
    "volumes": "/api/v1/persistentvolumes",
    "claims": "/api/v1/namespaces/{}/persistentvolumeclaims",
}
ZONE = "topology.kubernetes.io/zone"
SIZE = {"storage": "1Gi"}


@dataclass(slots=True)
class Shelf:
    """Throws the storage of one case."""

    key: str
    rolls: Random
    made: list[tuple[str, Json]] = field(default_factory=list)

    def equip(self, nodes: list[Json], running: list[Json], pod: Json) -> None:
        """Give nodes limits, and pods claims."""
        for mode in ("Immediate", "WaitForFirstConsumer"):
            self._class(mode)
        if self._maybe(0.3):
            self._tell_room()
        for node in nodes:
            if self._maybe(0.7):
                node["metadata"]["labels"][ZONE] = self.rolls.choice("ab")
            if self._maybe(0.7):
                self._limit(node["metadata"]["name"])
        for each in running:
            if self._maybe(0.4):
                self._use(each, self._bound(each))
        kinds = [*[self._bound] * 4, *[self._unbound] * 3, self._nothing]
        for make in self.rolls.sample(kinds, self.rolls.choice([1, 1, 2])):
            self._use(pod, make(pod))
        if running and self._maybe(0.15):
            self._share(self.rolls.choice(running), pod)

    # --- claims

    def _bound(self, pod: Json, mode: str = "ReadWriteOnce") -> str:
        """A claim and its volume, which may be somewhere."""
        name, space = f"{self.key}-{len(self.made)}", pod["metadata"]["namespace"]
        spec: Json = {
            "capacity": SIZE,
            "accessModes": [mode],
            "storageClassName": self._class_name("Immediate"),
            "claimRef": {"namespace": space, "name": name},
            "csi": {"driver": self._driver(), "volumeHandle": name},
        }
        terms = [
            {"matchExpressions": [{"key": key, "operator": "In", "values": values}]}
            for key, values in self.rolls.choice(
                [
                    [(f"{self.key}/zone", ["a"])],
                    [(f"{self.key}/zone", ["b"]), ("disk", ["ssd"])],
                    [(f"{self.key}/host", [f"{self.key}-n0", f"{self.key}-n1"])],
                ]
            )
        ]
        if self._maybe(0.5):
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        zone = {ZONE: self.rolls.choice(["a", "b", "a__b"])} if self._maybe(0.3) else {}
        self._make("volumes", name, {"spec": spec}, labels=zone)
        notes = {"pv.kubernetes.io/bind-completed": "yes"}
        self._claim(name, space, "Immediate", mode, {"volumeName": name}, notes)
        return name

    def _unbound(self, pod: Json) -> str:
        name, space = f"{self.key}-{len(self.made)}", pod["metadata"]["namespace"]
        mode = self.rolls.choice(["Immediate", *["WaitForFirstConsumer"] * 4])
        self._claim(name, space, mode, "ReadWriteOnce", {}, {})
        return name

    def _nothing(self, _pod: Json) -> str:
        return "nothing"

    def _share(self, one: Json, other: Json) -> None:
        """Two pods with one claim that only one may have."""
        if one["metadata"]["namespace"] == other["metadata"]["namespace"]:
            name = self._bound(one, "ReadWriteOncePod")
            self._use(one, name)
            self._use(other, name)

    def _use(self, pod: Json, claim: str) -> None:
        volumes = pod["spec"].setdefault("volumes", [])
        name = f"v{len(volumes)}"
        volumes.append({"name": name, "persistentVolumeClaim": {"claimName": claim}})

    def _claim(
        self, name: str, space: str, mode: str, access: str, spec: Json, notes: Json
    ) -> None:
        asked = {"accessModes": [access], "resources": {"requests": SIZE}}
        whole = asked | {"storageClassName": self._class_name(mode)} | spec
        self._make("claims", name, {"spec": whole}, annotations=notes, namespace=space)

    # --- classes and drivers

    def _class(self, mode: str) -> None:
        spec: Json = {"provisioner": self._driver(), "volumeBindingMode": mode}
        label = {"key": f"{self.key}/zone", "values": [self.rolls.choice("ab")]}
        if self._maybe(0.5):
            spec["allowedTopologies"] = [{"matchLabelExpressions": [label]}]
        self._make("storageclasses", self._class_name(mode), spec)

    def _tell_room(self) -> None:
        """The driver says where it has room."""
        self._make("csidrivers", self._driver(), {"spec": {"storageCapacity": True}})
        for zone in "ab":
            largest = {"maximumVolumeSize": "500Mi"} if self._maybe(0.3) else {}
            rest: Json = {
                "storageClassName": self._class_name("WaitForFirstConsumer"),
                "capacity": self.rolls.choice(["500Mi", "1Gi", "5Gi"]),
                "nodeTopology": {"matchLabels": {f"{self.key}/zone": zone}},
            }
            self._make("csicapacities", zone, rest | largest, namespace=self.key)

    def _limit(self, node: str) -> None:
        count = {"count": self.rolls.choice([0, 1, 3, 9])} if self._maybe(0.7) else {}
        driver = {"name": self._driver(), "nodeID": node, "topologyKeys": [], "allocatable": count}
        self._make("csinodes", node, {"spec": {"drivers": [driver]}})

    def _driver(self) -> str:
        return f"{self.key}.example.com"

    def _class_name(self, mode: str) -> str:
        return f"{self.key}-{mode.lower()}"

    # --- all of them

    def _make(self, kind: str, name: str, rest: Json, **meta: Any) -> None:
        labels = {CASE: self.key} | meta.pop("labels", {})
        path = PATHS[kind].format(meta.get("namespace", ""))
        self.made.append((path, {"metadata": {"name": name, "labels": labels} | meta} | rest))

    def _maybe(self, chance: float) -> bool:
        return self.rolls.random() < chance
