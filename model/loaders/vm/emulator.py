"""QEMU with software emulation, without network, disk or display: a kernel, and the guest's program as its init.

The process does not outlive its owner, however that ends: it is killed at the end of `with`, and by the kernel when the
owner dies (PR_SET_PDEATHSIG). The guest itself ends where nobody asks it anything for ten minutes.
"""

import ctypes
import platform
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from model.errors import Unsupported
from model.loaders.vm.cpio import archive
from model.loaders.vm.guest import Guest, compiled

QEMU = "qemu-system-x86_64"
MEMORY = 512  # MiB
BOOT_LIMIT = 180.0
"""Seconds until the guest's program must be there: 6 to 30 is usual."""
LIMIT = 600.0
"""Seconds for everything."""
MOST_CONSOLE = 1 << 20
"""Bytes of the kernel's messages that are kept."""
PR_SET_PDEATHSIG = 1
COMMAND_LINE = "console=ttyS1 loglevel=4 panic=-1 rdinit=/init"


def command(image: Path, initramfs: Path, console: Path) -> list[str]:
    """The first serial port is standard input and output, the second has the kernel's messages."""
    return [
        *(QEMU, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-nic", "none"),
        *("-machine", "pc,accel=tcg", "-m", f"{MEMORY}M", "-smp", "1"),
        *("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"),
        *("-chardev", "stdio,id=wire,signal=off", "-serial", "chardev:wire"),
        *("-chardev", f"file,id=console,path={_quoted(console)}", "-serial", "chardev:console"),
        *("-kernel", str(image), "-initrd", str(initramfs), "-append", COMMAND_LINE),
    ]


def _quoted(path: Path) -> str:
    return str(path).replace(",", ",,")


@contextmanager
def booted(image: Path, limit: float = LIMIT) -> Iterator[Guest]:
    """A guest that runs `image`, for `limit` seconds. Raises Unsupported where that cannot be, in one line."""
    if platform.machine() != "x86_64":
        raise Unsupported(f"vm: the guest's program is compiled for x86-64, this machine is {platform.machine()}")
    if shutil.which(QEMU) is None:
        raise Unsupported(f"vm: {QEMU} is not installed (apt-get install qemu-system-x86)")
    program = compiled()
    with tempfile.TemporaryDirectory(prefix="bpf-devirt-") as place:
        initramfs, console, errors = (Path(place) / name for name in ("initramfs", "console", "errors"))
        initramfs.write_bytes(archive({"init": program}))
        with errors.open("wb") as said:
            process = subprocess.Popen(
                command(image.resolve(), initramfs, console),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                bufsize=0,
                process_group=0,  # Ctrl-C is for its owner
                preexec_fn=_ends_with_me(),
            )
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            guest = Guest(process.stdin, process.stdout, lambda: _last_words(errors, console), limit)
            guest.wait(BOOT_LIMIT)
            yield guest
        finally:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError, AttributeError):
                    pipe.close()  # type: ignore[union-attr]


def _ends_with_me() -> Callable[[], None]:
    prctl = ctypes.CDLL(None).prctl  # looked up before the fork

    def ask() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    return ask


def _last_words(*files: Path) -> str:
    """The last line of the first of these files that has one; a kernel's panic before anything else of its messages."""
    for file in files:
        with suppress(OSError), file.open("rb") as found:
            found.seek(max(0, file.stat().st_size - MOST_CONSOLE))
            lines = [line for line in found.read().decode(errors="replace").splitlines() if line.strip()]
            if lines:
                return next((line for line in reversed(lines) if "Kernel panic" in line), lines[-1]).strip()[:200]
    return ""
