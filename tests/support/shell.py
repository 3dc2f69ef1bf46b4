"""Shell lines as a user or a workflow runs them: `bash -e`, with `python` and `bpf-devirt` of this environment."""

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def shell(script: str, place: Path, stand_ins: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs `script` in `place`; `stand_ins` are scripts by the name of the command that they stand for."""
    path = place / ".bin"
    path.mkdir(exist_ok=True)
    commands = {
        "python": f'exec {shlex.quote(sys.executable)} "$@"',
        "bpf-devirt": 'exec python -m proofs "$@"',
        **(stand_ins or {}),
    }
    for name, text in commands.items():
        (path / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (path / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
