"""The shipped release that is nearest to a version: the newest that is not newer, else the oldest."""

import re

from model.errors import InputError
from model.kernel.data import available, load_release
from model.kernel.release import Release


def version_numbers(text: str) -> tuple[int, ...]:
    """The leading numbers of "6.18.44-cloud": (6, 18, 44); () where it begins with none."""
    fit = re.match(r"\d{1,5}(?:\.\d{1,5}){0,3}", text)
    return tuple(int(part) for part in fit[0].split(".")) if fit else ()


def nearest(version: str) -> Release:
    """By major and minor number alone. InputError where `version` has none, or no release is shipped."""
    wanted = version_numbers(version)[:2]
    names = available()
    if len(wanted) < 2 or not names:
        raise InputError("kernel version", version[:80], "expected numbers as in 6.12, and a release in the data")
    older = [name for name in names if version_numbers(name)[:2] <= wanted]
    return load_release(older[-1] if older else names[0])
