"""Which shipped release stands in for a version. The releases that are named here are shipped for good."""

import pytest

from model.errors import InputError
from model.kernel.nearest import nearest, version_numbers


@pytest.mark.parametrize(
    ("version", "name"),
    [("6.1.0-50-cloud-amd64", "6.1"), ("6.1", "6.1"), ("6.12.117", "6.12"), ("7.3.4", "7.3"), ("5.10.0", "5.10")],
)
def test_a_shipped_release_is_its_own(version: str, name: str) -> None:
    assert nearest(version).name == name


def test_older_before_newer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("model.kernel.nearest.available", lambda: ("5.10", "6.1", "6.12", "7.3"))
    assert [nearest(version).name for version in ("4.19.3", "5.15", "6.2", "6.18.44-x", "7.2", "8.0")] == [
        *("5.10", "5.10", "6.1", "6.12", "6.12", "7.3")
    ]


@pytest.mark.parametrize("version", ["", "six", "6", "-6.1", "\x1b[31m"])
def test_no_version(version: str) -> None:
    with pytest.raises(InputError, match=r"expected numbers as in 6\.12"):
        nearest(version)


def test_numbers() -> None:
    assert version_numbers("6.18.44-fc-v669") == (6, 18, 44)
    assert version_numbers("6.1+deb12") == (6, 1)
    assert version_numbers("v6.1") == ()
