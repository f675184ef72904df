"""Jobs that an API server takes, and jobs that it refuses, with what is said of them here."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
GPU = "nvidia.com/gpu"


def job(limits: Json, requests: Json | None = None, **spec: Any) -> Json:
    resources = {"limits": limits} | ({} if requests is None else {"requests": requests})
    container = {"name": "main", "image": "train:1", "resources": resources}
    template = {
        "metadata": {"labels": {"windlass.dev/queue": "team", "size": "any"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "x"},
        "spec": {"template": template} | spec,
    }


def named(**metadata: Any) -> Json:
    return job({GPU: 1}) | {"metadata": metadata}


TAKEN: dict[str, Json] = {
    "a number": job({GPU: 2}),
    "a text": job({GPU: "2"}),
    "a whole one in parts": job({GPU: "1000m"}),
    "a part of a CPU": job({"cpu": 0.5, "memory": "1.5Gi"}),
    "less asked for than allowed": job({"cpu": 2, GPU: 1}, {"cpu": "500m"}),
    "none at all": job({GPU: 0}),
    "a count that is left open": job({GPU: 1}, parallelism=None),
    "a name with dots": named(name="a.b-c.2"),
    "a name that is made up": named(generateName="x-"),
}
REFUSED: dict[str, tuple[Json, str]] = {
    "below zero": (job({GPU: -1}), "nvidia.com/gpu is -1, below zero; write 0 or more"),
    "CPU below zero": (job({"cpu": "-500m"}), "cpu is -500m, below zero"),
    "no number": (
        job({GPU: "eight"}),
        "nvidia.com/gpu is eight, which is no amount; write an amount, like 8",
    ),
    "a wrong unit": (job({"memory": "64GB"}), "memory is 64GB, which is no amount"),
    "neither": (job({GPU: True}), "nvidia.com/gpu is true, which is no amount"),
    "a part of a GPU": (job({GPU: 4.5}), "nvidia.com/gpu is 4.5; it is given whole"),
    "a resource by its short name": (
        job({"gpu": 1}),
        "gpu is no resource that Kubernetes knows; write one like cpu, memory",
    ),
    "a request alone": (
        job({}, {GPU: 1}),
        "nvidia.com/gpu has a request and no limit; write it as a limit",
    ),
    "a limit that is another": (
        job({GPU: 2}, {GPU: 1}),
        "nvidia.com/gpu is 1 as a request and 2 as a limit; write the same for both",
    ),
    "a request above its limit": (
        job({"cpu": 1}, {"cpu": 2}),
        "cpu is 2 as a request, above its limit of 1",
    ),
    "a count in words": (
        job({GPU: 1}, parallelism="lots"),
        "parallelism is lots; write a whole number from 0 on",
    ),
    "half a pod": (job({GPU: 1}, completions=1.5), "completions is 1.5; write a whole number"),
    "fewer than none": (job({GPU: 1}, parallelism=-2), "parallelism is -2; write a whole number"),
    "no name": (named(), "this Job has no name; give it one, as metadata.name"),
    "a name with capitals": (named(name="Train_1"), "Train_1 is no name of a Job; write small"),
    "no containers": (
        job({}, template={"spec": {"restartPolicy": "Never", "containers": []}}),
        "a pod without containers does nothing; give it one",
    ),
}
