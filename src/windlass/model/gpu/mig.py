"""The MIG catalogue: the instance profiles of each GPU model and their legal places.

An instance occupies an interval of the device's memory axis. A set of instances is legal if no two
overlap, their compute slices fit, no profile occurs more often than allowed, and at most one of
them has the media engines. The places are those that the driver prints.

    memory axis of an A100     0   1   2   3   4   5   6   7
    3g.20gb at 0 or 4         [---------------][---------------]
    2g.10gb at 0, 2 or 4      [-------][-------][-------]
    1g.5gb at 0 to 6          [---][---][---][---][---][---][---]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from windlass.model.gpus import WHOLE, Slice


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of instance: its compute slices, and its places on the memory axis."""

    name: str
    compute: int
    starts: tuple[int, ...]
    size: int
    """Its length on the memory axis."""
    most: int
    """The most instances of this profile on one device."""
    media: bool = False
    """It has the media engines, of which a device has one set."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """The ways to cut one GPU model."""

    compute: int
    """The compute slices of the device."""
    units: int
    """The length of its memory axis."""
    profiles: tuple[Profile, ...]


class Instance(NamedTuple):
    """One instance on a device."""

    start: int
    profile: str


def profile_of(model: str, name: str) -> Profile | None:
    """Return the profile of that name; None if the model does not offer it."""
    return _profiles(model).get(name)


def offered_by(model: str) -> tuple[str, ...]:
    """Return the names of a model's profiles, smallest first; none for a model without MIG."""
    return tuple(_profiles(model))


def milli_of_profile(model: str, name: str) -> int:
    """Return the thousandths of a device that an instance stands for.

    It is the larger one of its shares of compute and memory, rounded up.
    """
    geometry, profile = GEOMETRIES[model], _profiles(model)[name]
    compute = -(-profile.compute * WHOLE // geometry.compute)
    memory = -(-profile.size * WHOLE // geometry.units)
    return max(compute, memory)


@lru_cache(maxsize=4096)
def legal_starts(model: str, instances: tuple[Instance, ...], name: str) -> tuple[int, ...]:
    """Return the places at which one more instance of a profile may start beside the others."""
    profile = _profiles(model).get(name)
    if profile is None:
        return ()
    others = [_profiles(model)[instance.profile] for instance in instances]
    if sum(other.compute for other in others) + profile.compute > GEOMETRIES[model].compute:
        return ()
    if sum(other.name == name for other in others) >= profile.most:
        return ()
    if profile.media and any(other.media for other in others):
        return ()
    taken = [(i.start, i.start + p.size) for i, p in zip(instances, others, strict=True)]
    return tuple(
        start
        for start in profile.starts
        if all(start + profile.size <= low or high <= start for low, high in taken)
    )


@lru_cache(maxsize=4096)
def with_kept(model: str, instances: tuple[Instance, ...], kept: Slice) -> tuple[Instance, ...]:
    """Return the instances of a device with one more, for which a place is held.

    If other instances still overlap that place, its free parts are filled with smaller instances:
    otherwise another task would take them, and the place would never be free as a whole.
    """
    if kept.start in legal_starts(model, instances, kept.profile):
        return tuple(sorted((*instances, Instance(kept.start, kept.profile))))
    whole = profile_of(model, kept.profile)
    end = kept.start + (whole.size if whole else 0)
    for part in sorted(_profiles(model).values(), key=lambda part: (-part.size, part.name)):
        for start in part.starts:
            is_inside = kept.start <= start and start + part.size <= end
            if is_inside and start in legal_starts(model, instances, part.name):
                instances = tuple(sorted((*instances, Instance(start, part.name))))
    return instances


@lru_cache(maxsize=256)
def _profiles(model: str) -> dict[str, Profile]:
    geometry = GEOMETRIES.get(model)
    return {profile.name: profile for profile in geometry.profiles} if geometry else {}


def _seven(one: int, wide: int, half: int, full: int) -> Geometry:
    """Return the geometry of the seven-slice family.

    The arguments are the gigabytes in the names of the profiles 1g, 2g, 3g and 7g.
    """
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
