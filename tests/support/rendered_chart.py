"""The objects that Helm makes of the chart, for tests that look at them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from tests.conftest import require
from windlass.install.chart import Object, Release
from windlass.install.helm_program import HelmMissing, HelmProgram, find_helm


def usable_helm(kubeconfig: str = "") -> HelmProgram:
    """Return the Helm that `windlass install` would use; without one the test is skipped."""
    try:
        return find_helm(kubeconfig)
    except HelmMissing as missing:
        return require(None, f"The chart cannot be rendered: {missing}")


def render(values: Mapping[str, Any], release: Release | None = None) -> list[Object]:
    """Return the objects of an installation with these values over the defaults."""
    return asyncio.run(usable_helm().render(dict(values), release or Release()))
