"""The MIG catalogue: which instances a GPU model offers and where they may lie.

An instance occupies an interval of the device's memory axis. A set of instances is legal if no two
overlap, their compute slices fit, no profile occurs more often than allowed, and at most one of
them carries the media engines. The places are those the driver prints, not those of its mocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from windlass.model.gpus import WHOLE, Slice


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of instance: its compute slices and the places it may start."""

    name: str
    compute: int
    starts: tuple[int, ...]
    size: int
    most: int
    media: bool = False


@dataclass(frozen=True, slots=True)
class Geometry:
    """How one GPU model can be cut."""

    compute: int
    units: int
    profiles: tuple[Profile, ...]


class Instance(NamedTuple):
    """One instance on a device."""

    start: int
    profile: str


def profile_of(model: str, name: str) -> Profile | None:
    """The profile of that name, or None where the model does not offer it."""
    return _profiles(model).get(name)


def offered_by(model: str) -> tuple[str, ...]:
    """The names of a model's profiles, smallest first; none for a model without MIG."""
    return tuple(_profiles(model))


def milli_of_profile(model: str, name: str) -> int:
    """The share of the device an instance stands for: the larger of compute and memory."""
    geometry, profile = GEOMETRIES[model], _profiles(model)[name]
    compute = -(-profile.compute * WHOLE // geometry.compute)
    memory = -(-profile.size * WHOLE // geometry.units)
    return max(compute, memory)


@lru_cache(maxsize=4096)
def legal_starts(model: str, instances: tuple[Instance, ...], name: str) -> tuple[int, ...]:
    """Where one more instance of a profile may start beside those already there."""
    profile = _profiles(model).get(name)
    if profile is None:
        return ()
    there = [_profiles(model)[each.profile] for each in instances]
    if sum(each.compute for each in there) + profile.compute > GEOMETRIES[model].compute:
        return ()
    if sum(each.name == name for each in there) >= profile.most:
        return ()
    if profile.media and any(each.media for each in there):
        return ()
    taken = [(i.start, i.start + p.size) for i, p in zip(instances, there, strict=True)]
    return tuple(
        start
        for start in profile.starts
        if all(start + profile.size <= low or high <= start for low, high in taken)
    )


@lru_cache(maxsize=4096)
def with_kept(model: str, instances: tuple[Instance, ...], kept: Slice) -> tuple[Instance, ...]:
    """The instances of a device with one more that is kept for somebody.

    Where others still lie in its place, what is free of that is filled with smaller ones: else
    somebody would take it, and the place would never come free.
    """
    if kept.start in legal_starts(model, instances, kept.profile):
        return tuple(sorted((*instances, Instance(kept.start, kept.profile))))
    whole = profile_of(model, kept.profile)
    end = kept.start + (whole.size if whole else 0)
    for each in sorted(_profiles(model).values(), key=lambda each: (-each.size, each.name)):
        for start in each.starts:
            is_inside = kept.start <= start and start + each.size <= end
            if is_inside and start in legal_starts(model, instances, each.name):
                instances = tuple(sorted((*instances, Instance(start, each.name))))
    return instances


@lru_cache(maxsize=256)
def _profiles(model: str) -> dict[str, Profile]:
    geometry = GEOMETRIES.get(model)
    return {each.name: each for each in geometry.profiles} if geometry else {}


def _seven(one: int, wide: int, half: int, full: int) -> Geometry:
    """The seven-slice family; arguments are the gigabytes in the names of 1g, 2g, 3g and 7g."""
    ones, twos = tuple(range(7)), (0, 2, 4)
    return Geometry(
        compute=7,
        units=8,
        profiles=(
            Profile(f"1g.{one}gb", 1, ones, 1, 7),
            Profile(f"1g.{one}gb+me", 1, ones, 1, 1, media=True),
            Profile(f"1g.{wide}gb", 1, (0, 2, 4, 6), 2, 4),
            Profile(f"2g.{wide}gb", 2, twos, 2, 3),
            Profile(f"3g.{half}gb", 3, (0, 4), 4, 2),
            Profile(f"4g.{half}gb", 4, (0,), 4, 1),
            Profile(f"7g.{full}gb", 7, (0,), 8, 1),
        ),
    )


def _rtx_pro_6000() -> Geometry:
    quarters, halves = (0, 3, 6, 9), (0, 6)
    return Geometry(
        compute=4,
        units=12,
        profiles=(
            Profile("1g.24gb", 1, quarters, 3, 4),
            Profile("1g.24gb+me", 1, quarters, 3, 1, media=True),
            Profile("1g.24gb+gfx", 1, quarters, 3, 4),
            Profile("1g.24gb+me.all", 1, quarters, 3, 1, media=True),
            Profile("1g.24gb-me", 1, quarters, 3, 4),
            Profile("2g.48gb", 2, halves, 6, 2),
            Profile("2g.48gb+gfx", 2, halves, 6, 2),
            Profile("2g.48gb+me.all", 2, halves, 6, 1, media=True),
            Profile("2g.48gb-me", 2, halves, 6, 2),
            Profile("4g.96gb", 4, (0,), 12, 1),
            Profile("4g.96gb+gfx", 4, (0,), 12, 1),
        ),
    )


GEOMETRIES: dict[str, Geometry] = {
    "A30-24GB": Geometry(
        compute=4,
        units=4,
        profiles=(
            Profile("1g.6gb", 1, (0, 1, 2, 3), 1, 4),
            Profile("1g.6gb+me", 1, (0, 1, 2, 3), 1, 1, media=True),
            Profile("2g.12gb", 2, (0, 2), 2, 2),
            Profile("2g.12gb+me", 2, (0, 2), 2, 1, media=True),
            Profile("4g.24gb", 4, (0,), 4, 1),
        ),
    ),
    "A100-40GB": _seven(5, 10, 20, 40),
    "A100-80GB": _seven(10, 20, 40, 80),
    "H100-80GB": _seven(10, 20, 40, 80),
    "H100-94GB": _seven(12, 24, 47, 94),
    "H100-96GB": _seven(12, 24, 48, 96),
    "H200-141GB": _seven(18, 35, 71, 141),
    "GH200-144GB": _seven(18, 36, 72, 144),
    "B200-180GB": _seven(23, 45, 90, 180),
    "GB200-186GB": _seven(23, 47, 93, 186),
    "B300-269GB": _seven(34, 67, 135, 269),
    "GB300-278GB": _seven(35, 70, 139, 278),
    "RTX-PRO-6000-Blackwell-96GB": _rtx_pro_6000(),
}
