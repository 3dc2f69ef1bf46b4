"""What a tree says otherwise than a release file, for people."""

from rich.console import Console

from model.kernel.release import Release
from model.kernel.release_facts import Compared
from proofs.report.text import clean


def differences_report(out: Console, tree: Release, file: str, known: Release, found: Compared) -> None:
    """A line for each difference, what was not compared, and the count."""
    for row in found.differences:
        out.print(clean(str(row)), markup=False, soft_wrap=True)
    if found.skipped:
        rows = ", ".join(f"{count} of kind {kind}" for kind, count in found.skipped.items())
        partial = known if known.provenance else tree
        what = f"not compared, because the data of {partial.version} is from no tree and lacks them: {rows}"
        out.print(clean(what), markup=False, soft_wrap=True)
    count = len(found.differences)
    number = "no differences" if count == 0 else "1 difference" if count == 1 else f"{count} differences"
    out.print(
        clean(f"Linux {tree.version} against {file} (Linux {known.version}): {number}"), markup=False, soft_wrap=True
    )
