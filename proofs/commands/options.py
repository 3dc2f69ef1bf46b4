"""Options that several commands share."""

import argparse
import re
from pathlib import Path

from model.errors import InputError
from model.kernel.abi import ABIS, Abi
from model.kernel.data import available, load_release, load_release_file
from model.kernel.release import Release


def add_kernel(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """`--kernel` and `--arch`; `several` where the command takes lists of them (`kernels`, `abis`)."""
    lists = "; all, or more than one with commas between" if several else ""
    parser.add_argument(
        "--kernel",
        metavar="RELEASE",
        default="newest",
        help="a release in the data (see `list`), a release file written by `extract`, or `running`: the running "
        "kernel, as root (default: the newest)",
    )
    parser.add_argument(
        "--arch",
        metavar="ARCH",
        default="x86_64",
        help=f"the C ABI: {', '.join(ABIS)}{lists} (default: x86_64)",
    )


def kernel(text: str) -> Release:
    """The release that `--kernel` names. A path ("/" in it, or ending in .json) is a release file."""
    if "/" in text or text.endswith(".json"):
        return load_release_file(Path(text))
    if text == "running":
        from proofs.commands.running import running_release

        return running_release()
    wanted = text.removeprefix("v")
    if wanted in (*available(), "newest"):
        return load_release(wanted)
    by_version = {load_release(name).version: name for name in available()} if wanted.count(".") > 1 else {}
    if wanted in by_version:
        return load_release(by_version[wanted])
    names = ", ".join(available())
    wish = f"expected a release ({names}, newest), or a release file written by `extract` (./NAME.json)"
    raise InputError("--kernel", text[:80], wish)


def abi(text: str) -> Abi:
    found = ABIS.get(text.replace("-", "_"))
    if found is None:
        raise InputError("--arch", text[:80], f"expected one of {', '.join(ABIS)}")
    return found


def kernels(text: str) -> list[Release]:
    """The releases that `--kernel` names: all in the data, or those between commas, each once, in the order given."""
    names = available() if text == "all" else (text,) if Path(text).is_file() else tuple(text.split(","))
    found = [kernel(name) for name in dict.fromkeys(names)]
    by_name: dict[str, Release] = {}
    for release in found:
        if by_name.setdefault(release.name, release) != release:
            raise InputError("--kernel", text[:80], f"expected one release of the name {release.name}")
    return list(by_name.values())


def abis(text: str) -> list[Abi]:
    """The ABIs that `--arch` names: all, or those between commas, each once."""
    return list(dict.fromkeys(ABIS.values() if text == "all" else map(abi, text.split(","))))


def positive_seconds(text: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?", text) or not 0 < float(text) <= 86400:
        raise argparse.ArgumentTypeError(f"expected seconds, more than 0 and at most 86400, not {text!r}")
    return float(text)


__all__ = ["abi", "abis", "add_kernel", "available", "kernel", "kernels", "positive_seconds"]
