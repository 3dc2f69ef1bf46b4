"""The extractor on real source trees: `KERNEL_TREES=DIR` with DIR/linux-source-6.1 and so on; skipped without.

Expected values are from reading the sources, not from the extractor.
"""

import os
import time
from pathlib import Path

import pytest

from model.kernel.data import load_release
from model.kernel.extract import extract
from model.kernel.release import Release


@pytest.mark.slow
@pytest.mark.parametrize("name", ["5.10", "6.1", "6.12", "7.3"])
def test_the_shipped_data_is_what_the_tree_says(name: str) -> None:
    place = os.environ.get("KERNEL_TREES")
    if not place:
        pytest.skip("KERNEL_TREES is not set: no kernel source trees to read")
    tree = Path(place) / f"linux-source-{name}"
    if not tree.is_dir():
        pytest.skip(f"{tree} is not there")
    begin = time.process_time()
    release: Release = extract(tree)
    print(f"{name}: {time.process_time() - begin:.1f} s of CPU time")
    assert release == load_release(name)
