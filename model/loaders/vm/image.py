"""Kernel images for a guest: Debian's packages for cloud machines (x86-64), fetched by apt, kept in the user's cache.

Nothing is installed: `apt-get download` and `dpkg-deb --fsys-tarfile`, of which one file is taken.
"""

import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from model.errors import InputError, Unsupported
from model.loaders.bzimage import is_bzimage

APT_LIMIT = 600
"""Seconds for a download."""
MOST = 256 << 20
"""Bytes of an image."""
NAME = r"linux-image-{release}(?:\.[0-9][\w.+~-]{{0,60}}|)-cloud-amd64"
_IMAGE = re.compile(r"\./boot/vmlinuz-[\w.+~-]{1,80}", re.ASCII)


def cache() -> Path:
    """The XDG base directory specification: a relative XDG_CACHE_HOME is to be ignored."""
    wanted = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (wanted if wanted.is_absolute() else Path.home() / ".cache") / "bpf-devirt" / "kernels"


def given(path: str) -> Path:
    """A file that the user names. Raises InputError where it is no kernel image for x86."""
    try:
        with open(path, "rb") as file:
            head = file.read(4096)
    except OSError as error:
        raise InputError("--image", path, f"cannot be read: {error.strerror}") from None
    if not is_bzimage(head):
        raise InputError("--image", path, "expected a kernel image to boot (bzImage, /boot/vmlinuz-…)")
    return Path(path)


def cached(release: str) -> Path | None:
    """The newest image of `release` ("6.1") that was fetched before."""
    pattern = re.compile(NAME.format(release=re.escape(release)))
    try:
        found = [path for path in cache().iterdir() if pattern.fullmatch(path.name)]
    except OSError:
        return None
    return max(found, key=lambda path: numbers(path.name), default=None)


def fetched(release: str) -> Path:
    """The image of `release`, downloaded if it is not in the cache. Raises Unsupported, with the reason in one line."""
    found = cached(release)
    if found is not None:
        return found
    for tool in ("apt-cache", "apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise Unsupported(f"vm: {tool} is not installed: give a kernel image of {release} with --image")
    package = newest(release, _run(["apt-cache", "pkgnames", f"linux-image-{release}"], Path("/")))
    if package is None:
        raise Unsupported(f"vm: apt knows no package linux-image-{release}…-cloud-amd64: give an image with --image")
    target = cache() / package
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="bpf-devirt-") as place:
            _run(["apt-get", "-q", "download", package], Path(place))
            package_file = next(iter(Path(place).glob("*.deb")), None)
            if package_file is None:
                raise Unsupported(f"vm: {package} cannot be had: apt-get download left no file")
            image = _unpacked(package_file, Path(place))
            beside = target.with_name(f".{package}.{os.getpid()}")
            shutil.copyfile(image, beside)
            beside.replace(target)
    except OSError as error:
        raise Unsupported(f"vm: {target}: cannot be written: {error.strerror}") from None
    return target


def newest(release: str, names: str) -> str | None:
    """Of the packages in `names`, one a line, the image of `release` with the highest version."""
    found = re.findall(rf"^{NAME.format(release=re.escape(release))}$", names, re.MULTILINE | re.ASCII)
    dated = [name for name in found if name != f"linux-image-{release}-cloud-amd64"]  # that one holds no image
    return max(dated, key=numbers, default=None)


def numbers(name: str) -> tuple[int, ...]:
    """Those of a package's name, in order: 6.1.0-57 is later than 6.1.0-9."""
    return tuple(int(one) for one in re.findall(r"[0-9]{1,9}", name))


def _run(command: list[str], place: Path) -> str:
    """What a command says on its standard output."""
    try:
        done = subprocess.run(
            command, cwd=place, stdin=subprocess.DEVNULL, capture_output=True, timeout=APT_LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unsupported(f"vm: {' '.join(command)}: no end within {APT_LIMIT} s") from None
    except OSError as error:
        raise Unsupported(f"vm: {command[0]} cannot be run: {error.strerror}") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit status {done.returncode}"]
        raise Unsupported(f"vm: {' '.join(command)}: {lines[-1][:200]}")
    return done.stdout.decode(errors="replace")


def _unpacked(package: Path, place: Path) -> Path:
    """boot/vmlinuz-… of a package; no other file of it is written."""
    target = place / "image"
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as process:
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as members:
                for member in members:
                    if _IMAGE.fullmatch(member.name) and member.isreg() and member.size <= MOST:
                        content = members.extractfile(member)
                        if content is not None:
                            target.write_bytes(content.read())
                            return target
        except tarfile.TarError as error:
            raise Unsupported(f"vm: {package.name} cannot be unpacked: {error}") from None
        finally:
            process.kill()
    raise Unsupported(f"vm: {package.name} has no boot/vmlinuz-…")
