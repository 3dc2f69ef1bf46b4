"""The report of abi-check: a line for each value that crosses a function's boundary, then totals."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from model.kernel.abi import Abi
from model.kernel.release import Release
from model.loaders.kernel_image import KernelImage
from proofs.abi_check import Agreement, Code, Row
from proofs.report.text import clean, put

COLUMNS = ("", "function", "value", "what is asked", "the code")


def machine_code_report(
    out: Console, image: KernelImage, release: Release, abi: Abi, rows: Sequence[Row], *, verbose: bool
) -> None:
    """Values of 64 bits, about which no row says anything, are listed only where `verbose`."""
    source = "the image's BTF" if image.types is not None else f"release {release.name}"
    told = image.version()
    title = f"Machine code of {image.file}{f' (Linux {told})' if told else ''}, {abi.name}: "
    out.print(clean(f"{title}functions of {release.name}, prototypes from {source}"), markup=False, soft_wrap=True)
    for role in dict.fromkeys(row.subject.role for row in rows):
        shown = [row for row in rows if row.subject.role == role and (row.code is not Code.WHOLE or verbose)]
        if shown:
            out.print()
            out.print(f"{role}s", markup=False)
            put(out, _table(shown))
    if not image.symbols.places("__start___jump_table"):
        text = "the symbols do not tell the jump labels: ways behind a label that is off here were not followed"
        out.print(text, markup=False, soft_wrap=True)
    out.print()
    for line in totals(rows):
        out.print(line, markup=False, soft_wrap=True)


def _table(rows: Sequence[Row]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in COLUMNS:
        table.add_column(column, no_wrap=column != COLUMNS[-1], overflow="fold")
    for row in rows:
        code = f"{row.code.value}: {row.why}" if row.why else row.code.value
        cells = (row.agreement.value, row.subject.name, f"{row.type.c} {row.part}", row.demand, code)
        table.add_row(*(clean(text) for text in cells))
    return table


def totals(rows: Sequence[Row]) -> list[str]:
    """Results by role and type, arguments, and the agreement over all."""
    lines = []
    groups = Counter((row.subject.role, row.part == "result", row.type.c, row.code) for row in rows if _counted(row))
    for role, is_result, kind in dict.fromkeys(key[:3] for key in groups):
        found = {key[3]: count for key, count in groups.items() if key[:3] == (role, is_result, kind)}
        parts = ", ".join(f"{count} {code.value}" for code, count in found.items())
        lines.append(f"{role}s, {kind} {'result' if is_result else 'argument'}: {parts}")
    whole = sum(row.code is Code.WHOLE for row in rows)
    if whole:
        lines.append(f"results of 64 bits or none, to which no rule applies: {whole}")
    agreements = Counter(row.agreement for row in rows if row.code is not Code.WHOLE)
    lines.append(", ".join(f"{agreements[word]} {word.value}" for word in Agreement))
    return lines


def _counted(row: Row) -> bool:
    return row.code is not Code.WHOLE and row.agreement is not Agreement.NOT_THERE
