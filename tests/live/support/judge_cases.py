"""Small clusters by chance, and in each a pod that asks for something by chance.

Many cases share one control plane. They are kept apart by what nobody's rules look at: the nodes of
a case offer a resource that its pod alone asks for. Labels over which pods spread or gather, and
the values by which they know each other, belong to one case; so one cannot count in another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.live.support.judge_storage import CASE, Json, Shelf

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HEAVY = "judge-heavy"
"""A RuntimeClass with overhead."""
HOSTNAME = "kubernetes.io/hostname"
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
TAINTS = (
    {"key": "dedicated", "value": "ml", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "web", "effect": "NoExecute"},
    {"key": "spot", "effect": "NoSchedule"},
    {"key": "slow", "value": "yes", "effect": "PreferNoSchedule"},
)
TOLERATIONS = (
    {"key": "dedicated", "value": "ml", "effect": "NoSchedule"},
    {"key": "dedicated", "operator": "Exists"},
    {"key": "dedicated", "operator": "Exists", "effect": "NoExecute"},
    {"key": "spot", "operator": "Equal", "value": ""},
    {"operator": "Exists", "effect": "NoSchedule"},
    {"operator": "Exists"},
    CORDON | {"operator": "Exists"},
)


@dataclass(frozen=True, slots=True)
class Case:
    """A cluster, what runs in it, and the pod that is to be placed."""

    key: str
    """Its namespace, and the value of its label."""
    namespaces: list[Json]
    nodes: list[Json]
    running: list[Json]
    leaving: list[str]
    """Names of running pods that are being deleted, and stay."""
    pod: Json
    stored: list[tuple[str, Json]]
    """Claims, volumes and the like: where each is created, and what."""


def make_case(number: int, seed: int = 0) -> Case:
    """The case of this number, always the same."""
    dice = Dice(f"c{number}", Random(f"{seed}/{number}"))
    nodes = [dice.node(f"{dice.key}-n{at}") for at in range(dice.rolls.choice([3, 3, 4, 6]))]
    names = [each["metadata"]["name"] for each in nodes]
    running = [dice.running(f"r{at}", names) for at in range(dice.rolls.choice([0, 4, 6, 8]))]
    pod = dice.waiting("p")
    shelf = Shelf(dice.key, dice.rolls)
    if dice.maybe(0.25):
        shelf.equip(nodes, running, pod)
    return Case(
        key=dice.key,
        namespaces=[dice.namespace(dice.key, "red"), dice.namespace(f"{dice.key}-b", "blue")],
        nodes=nodes,
        running=running,
        leaving=[name_of(each) for each in running if dice.maybe(0.1)],
        pod=pod,
        stored=shelf.made,
    )


def name_of(found: Json) -> str:
    """What an object is called."""
    return found["metadata"]["name"]


def fence(key: str) -> str:
    """What only the nodes of a case offer."""
    return f"judge.example.com/{key}"


@dataclass(frozen=True, slots=True)
class Dice:
    """Throws everything of one case."""

    key: str
    rolls: Random

    def maybe(self, chance: float) -> bool:
        return self.rolls.random() < chance

    # --- what is there

    def namespace(self, name: str, team: str) -> Json:
        return {"metadata": {"name": name, "labels": {CASE: self.key, f"{self.key}/team": team}}}

    def node(self, name: str) -> Json:
        rolls = self.rolls
        labels = {CASE: self.key, HOSTNAME: name, f"{self.key}/host": name}
        for label, values in (("disk", ["ssd", "hdd"]), ("cores", ["4", "16", "007", "many"])):
            if self.maybe(0.8):
                labels[label] = rolls.choice(values)
        for label, values in (("zone", "ab"), ("rack", "xyz")):
            if self.maybe(0.9):
                labels[f"{self.key}/{label}"] = rolls.choice(values)
        taints = [each for each in TAINTS if self.maybe(0.12)]
        is_cordoned = self.maybe(0.1)
        offered = {
            "cpu": rolls.choice(["1500m", "4", "8"]),
            "memory": rolls.choice(["2Gi", "4Gi", "8Gi"]),
            "pods": rolls.choice(["3", "110", "110", "110"]),
            "ephemeral-storage": "10Gi",
            "nvidia.com/gpu": rolls.choice(["0", "1", "2"]),
            "example.com/nic": rolls.choice(["0", "1"]),
            fence(self.key): "100",
        }
        return {
            "metadata": {"name": name, "labels": labels},
            # the node controller taints what somebody has cordoned
            "spec": {"unschedulable": is_cordoned, "taints": [*taints, *[CORDON][:is_cordoned]]},
            "status": {
                "capacity": offered,
                "allocatable": offered,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }

    def running(self, name: str, nodes: list[str]) -> Json:
        found = self._pod(name, self.rolls.choice([self.key, self.key, f"{self.key}-b"]))
        found["spec"] |= {"nodeName": self.rolls.choice(nodes), "schedulerName": "somebody"}
        if self.maybe(0.5):
            _ports(self, found)
        if self.maybe(0.15):
            _apart(self, found)
        return found

    def waiting(self, name: str) -> Json:
        found = self._pod(name, self.key)
        container = found["spec"]["containers"][0]
        container["resources"]["limits"] |= {fence(self.key): "1"}
        found["metadata"]["labels"]["windlass.dev/preemptible"] = "true"
        found["spec"]["tolerations"] = [each for each in TOLERATIONS if self.maybe(0.12)]
        for feature in dict.fromkeys(self.rolls.choices(FEATURES, k=self.rolls.choice([1, 2, 3]))):
            feature(self, found)
        return found

    # --- pods

    def _pod(self, name: str, namespace: str) -> Json:
        labels = {CASE: self.key, "app": self.app(), "rev": self.rolls.choice("12")}
        return {
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
                "containers": [self.container("main")],
            },
        }

    def container(self, name: str) -> Json:
        rolls = self.rolls
        amounts = {"cpu": ["100m", "500m", "900m"], "memory": ["100Mi", "700Mi", "1Gi"]}
        amounts |= {"ephemeral-storage": ["1Gi", "6Gi"]}
        asked = {each: rolls.choice(some) for each, some in amounts.items() if self.maybe(0.6)}
        devices = {"nvidia.com/gpu": "1", "example.com/nic": "1"}
        limits = {each: some for each, some in devices.items() if self.maybe(0.12)}
        return {"name": name, "image": "none", "resources": {"requests": asked, "limits": limits}}

    # --- words

    def app(self) -> str:
        return f"{self.key}-{self.rolls.choice('ab')}"

    def some(self, make: Callable[[], Json]) -> list[Json]:
        return [make() for _ in range(self.rolls.choice([1, 1, 2]))]

    def expression(self) -> Json:
        key = self.rolls.choice(["disk", "cores", f"{self.key}/zone", "nowhere"])
        operator = self.rolls.choice(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
        if operator in ("Gt", "Lt"):
            return {"key": "cores", "operator": operator, "values": [self.rolls.choice("05")]}
        values = {} if "xist" in operator else {"values": self.rolls.choice([["ssd", "a"], ["b"]])}
        return {"key": key, "operator": operator} | values

    def node_term(self) -> Json:
        name = f"{self.key}-n{self.rolls.randrange(3)}"
        named = [{"key": "metadata.name", "operator": self.rolls.choice(["In", "NotIn"])}]
        return self.rolls.choice(
            [
                {"matchExpressions": self.some(self.expression)},
                {"matchExpressions": [self.expression()]},
                {"matchFields": [each | {"values": [name]} for each in named]},
                {},
            ]
        )

    def selector(self) -> Json:
        app = self.app()
        return self.rolls.choice(
            [
                {"labelSelector": {"matchLabels": {"app": app}}},
                {"labelSelector": {"matchLabels": {"app": app}}},
                {"labelSelector": {"matchLabels": {"app": app}}, "matchLabelKeys": ["rev"]},
                {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}},
                {
                    "labelSelector": {
                        "matchExpressions": [{"key": "app", "operator": "NotIn", "values": [app]}]
                    }
                },
                {"labelSelector": {}},
                {},
            ]
        )

    def pod_term(self) -> Json:
        team = {"matchLabels": {f"{self.key}/team": self.rolls.choice(["red", "blue", "green"])}}
        whose = self.rolls.choice(
            [
                {},
                {},
                {"namespaces": [f"{self.key}-b"]},
                {"namespaceSelector": team},
                {"namespaceSelector": team, "namespaces": [self.key]},
                {"namespaceSelector": {"matchLabels": {CASE: self.key}}},
            ]
        )
        # whoever looks everywhere must know whom it means, or it would mean other cases too
        app = {"labelSelector": {"matchLabels": {"app": self.app()}}}
        everywhere = app | {"namespaceSelector": {}}
        chosen = everywhere if self.maybe(0.15) else self.selector() | whose
        return {"topologyKey": self.topology(HOSTNAME)} | chosen

    def topology(self, host: str) -> str:
        return self.rolls.choice([f"{self.key}/zone", f"{self.key}/rack", host])

    def spread(self) -> Json:
        rolls = self.rolls
        policies = {
            f"node{each}Policy": rolls.choice(["Honor", "Ignore"])
            for each in ("Affinity", "Taints")
            if self.maybe(0.4)
        }
        least = {"minDomains": rolls.choice([1, 2, 3])} if self.maybe(0.4) else {}
        unmet = "ScheduleAnyway" if not least and self.maybe(0.2) else "DoNotSchedule"
        return (
            {
                "topologyKey": self.topology(f"{self.key}/host"),
                "maxSkew": rolls.choice([1, 1, 2]),
                "whenUnsatisfiable": unmet,
            }
            | self.selector()
            | policies
            | least
        )


# --- what a pod may ask for ----------------------------------------------------------------------


def _init(dice: Dice, pod: Json) -> None:
    always = {"restartPolicy": "Always"} if dice.maybe(0.5) else {}
    pod["spec"]["initContainers"] = [dice.container("i0") | always, dice.container("i1")]


def _runtime(_dice: Dice, pod: Json) -> None:
    pod["spec"]["runtimeClassName"] = HEAVY


def _selector(dice: Dice, pod: Json) -> None:
    pod["spec"]["nodeSelector"] = {"disk": dice.rolls.choice(["ssd", "ssd", "tape"])}


def _affinity(dice: Dice, pod: Json) -> None:
    _side(pod, "nodeAffinity")[REQUIRED] = {"nodeSelectorTerms": dice.some(dice.node_term)}


def _wishes(dice: Dice, pod: Json) -> None:
    wish = {"weight": 7, "preference": {"matchExpressions": [dice.expression()]}}
    _side(pod, "nodeAffinity")[PREFERRED] = [wish]


def _near(dice: Dice, pod: Json) -> None:
    _side(pod, "podAffinity")[REQUIRED] = dice.some(dice.pod_term)


def _apart(dice: Dice, pod: Json) -> None:
    _side(pod, "podAntiAffinity")[REQUIRED] = dice.some(dice.pod_term)


def _spread(dice: Dice, pod: Json) -> None:
    found = {
        (each["topologyKey"], each["whenUnsatisfiable"]): each for each in dice.some(dice.spread)
    }
    pod["spec"]["topologySpreadConstraints"] = list(found.values())


def _ports(dice: Dice, pod: Json) -> None:
    rolls = dice.rolls
    port = {"containerPort": 80, "hostPort": rolls.choice([8080, 8080, 8080, 9090])}
    port |= {"protocol": "UDP"} if dice.maybe(0.3) else {}
    port |= {"hostIP": rolls.choice(["10.0.0.1", "10.0.0.2", "0.0.0.0"])} if dice.maybe(0.4) else {}
    pod["spec"]["containers"][0]["ports"] = [port]


FEATURES = (
    *(_init, _runtime, _selector, _affinity, _wishes, _near, _near, _apart, _ports, _ports),
    *(_spread,) * 5,
)
"""Each as often as it is to be asked for: what has more cases of its own comes more often."""


def _side(pod: Json, side: str) -> Json:
    return pod["spec"].setdefault("affinity", {}).setdefault(side, {})
