"""Objects that a machine may have (Debian's xdp-tools, libxdp1): the loader and `bpftool gen skeleton` agree."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from model.loaders.elf import load

BPFTOOL = shutil.which("bpftool") or shutil.which("bpftool", path="/usr/sbin:/sbin")
INSTALLED = sorted(Path("/usr/lib").glob("*/bpf/*.o"))


@pytest.mark.skipif(not INSTALLED, reason="no BPF objects in /usr/lib/*/bpf (xdp-tools, libxdp1 are not installed)")
@pytest.mark.skipif(BPFTOOL is None, reason="bpftool is not installed")
def test_programs_and_maps_as_bpftool_lists_them() -> None:
    for path in INSTALLED:
        command = [str(BPFTOOL), "gen", "skeleton", str(path), "name", "x"]
        skeleton = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found = load(path.read_bytes(), str(path))
        programs = re.findall(r"^\t\tstruct bpf_program \*(\w+);", skeleton, re.M)
        maps = set(re.findall(r"^\t\tstruct bpf_map \*(\w+);", skeleton, re.M)) - {"kconfig"}
        assert [p.name for p in found.programs] == programs, path
        assert {re.sub(r"\W", "_", m.name.lstrip(".")) for m in found.maps} == maps, path
