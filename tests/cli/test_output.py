"""`write_file` writes files whole, and leaves links, pipes and devices what they are."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from tests.conftest import require
from windlass.cli.output import write_file
from windlass.model.errors import InputError
from windlass_lab.commands.cluster import unused

FULL = Path("/dev/full")


def test_a_file_is_replaced_whole_and_leaves_no_other_file(tmp_path: Path):
    file = tmp_path / "plan.json"
    file.write_bytes(b"old")
    write_file(str(file), b"new")
    assert file.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["plan.json"]


def test_a_link_stays_a_link_and_its_target_is_written(tmp_path: Path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_file(str(link), b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path):
    pipe, read = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_file(str(pipe), b"new")
    reader.join(10)
    assert read == [b"new"]
    assert pipe.is_fifo()


def test_a_device_stays_a_device(tmp_path: Path):
    link = tmp_path / "null"
    link.symlink_to(os.devnull)
    write_file(str(link), b"new")
    assert Path(os.devnull).is_char_device()
    with pytest.raises(InputError, match="cannot be written"):
        write_file(str(tmp_path), b"a folder")


def test_a_full_disk_gives_one_sentence():
    require(FULL.is_char_device(), "This needs /dev/full, which this system does not have.")
    command = "from windlass.cli import main; main(['crds'])"
    with FULL.open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-c", command],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 1
    assert ended.stderr.decode() == "The output cannot be written: No space left on device.\n"


def test_the_kubeconfig_of_a_running_cluster_is_not_overwritten(tmp_path: Path):
    wanted = tmp_path / "kubeconfig"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        wanted.write_text(f"- cluster:\n    server: https://127.0.0.1:{port}\n")
        assert unused(wanted) == tmp_path / "kubeconfig-2"
    assert unused(wanted) == wanted, "no server listens there any more"
