"""The contents of the image: the wheel with its chart, and the container file."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tests.support.rendered_chart import render, usable_helm
from windlass.cli import COMMANDS
from windlass.install.chart import Release, as_text

LINES = (ROOT / "deploy/Containerfile").read_text().replace("\\\n", " ").splitlines()


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, as it is installed."""
    folder = tmp_path_factory.mktemp("wheel")
    words = ["-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run([sys.executable, *words], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as found:
        found.extractall(folder / "site")
    return folder / "site"


def test_an_installed_program_prints_what_a_checkout_prints(unpacked: Path, tmp_path: Path):
    code = "from windlass.cli import main; main(['install', '--print'])"
    path = str(usable_helm().path.parent)
    environment = {"PYTHONPATH": str(unpacked), "HOME": str(tmp_path), "PATH": path}
    said = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, check=True, capture_output=True
    )
    assert said.stdout.decode() == as_text(render({}), Release())


def test_the_wheel_holds_what_the_image_runs(unpacked: Path):
    assert (unpacked / "windlass/install/helm/values.schema.json").is_file()
    assert (unpacked / "windlass/daemon/serving/webhook.py").is_file()


def test_the_container_file_copies_only_existing_files():
    copied = [line.split()[1:-1] for line in LINES if re.match(r"COPY (?!--from)", line)]
    assert copied
    assert [path for paths in copied for path in paths if not (ROOT / path).exists()] == []


def test_every_package_of_the_image_is_pinned_by_its_hash():
    installs = [line for line in LINES if "pip install" in line]
    assert [line for line in installs if not re.search("--require-hashes|--no-deps", line)] == []


def test_the_image_runs_as_the_user_that_the_chart_asks_for():
    (user,) = [line.split()[1] for line in LINES if line.startswith("USER")]
    for each in render({}):
        if each["kind"] == "Deployment":
            context = each["spec"]["template"]["spec"]["securityContext"]
            assert user == f"{context['runAsUser']}:{context['runAsGroup']}"


def test_the_programs_of_the_chart_are_commands_of_the_image():
    assert 'ENTRYPOINT ["windlass"]' in LINES
    for each in render({}):
        if each["kind"] == "Deployment":
            assert each["spec"]["template"]["spec"]["containers"][0]["args"][0] in COMMANDS
