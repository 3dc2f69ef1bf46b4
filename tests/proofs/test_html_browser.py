"""The HTML report in a real Chromium: no complaints, filters, keys, the graph, narrow and dark, and on paper."""

import re
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import PROGRAM, Browser, browser

from proofs.cli import main

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed"),
]
OBJECTS = Path(__file__).resolve().parent.parent / "data" / "objects"
VISIBLE = "[...document.querySelectorAll('.claims tbody tr')].filter(row => row.checkVisibility())"


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as made:
        yield made


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """search_all of for_each.o on 6.1: 13 claims, 5 of them refuted (a return value of 32 bits before 6.4)."""
    place = tmp_path_factory.mktemp("html") / "report.html"
    arguments = ["--kernel", "6.1", "--program", "search_all", "--format", "html", "-o", str(place)]
    assert main(["check", *arguments, str(OBJECTS / "for_each.o")]) == 1
    return place


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("html") / "releases.html"
    selected = ["--kernel", "6.1,6.12", "--arch", "x86_64,riscv64", "--match", "dispatch/*/*hash/*"]
    assert main(["check", *selected, "--format", "html", "-o", str(place)]) == 1
    return place


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)])
def test_it_loads_without_complaints_and_fits(tab: Browser, report: Path, width: int, dark: bool) -> None:
    tab.open(report, width=width, dark=dark)
    assert tab.complaints == []
    assert tab.run("document.documentElement.scrollWidth") <= width
    back = tab.run("getComputedStyle(document.body).backgroundColor")
    assert back == ("rgb(15, 19, 24)" if dark else "rgb(255, 255, 255)")
    assert tab.run(f"{VISIBLE}.length") == 13


def test_a_complaint_would_be_seen_and_nothing_foreign_runs(tab: Browser, report: Path, tmp_path: Path) -> None:
    """The policy is what stops a script, a style, a picture and a handler that somebody got into the page."""
    foreign = (
        "<script>document.title = 'foreign'</script><style>h1 { color: #010203 }</style>"
        "<p id=x style='color: #010203' onclick=\"document.title = 'foreign'\">x</p><img src=http://127.0.0.1:9/>"
    )
    page = tmp_path / "foreign.html"
    page.write_text(report.read_text(encoding="utf-8").replace("</main>", f"{foreign}</main>"), encoding="utf-8")
    tab.open(page)
    tab.run("document.getElementById('x').click()")
    assert tab.run("document.title") == "bpf-devirt check"
    for where in ("h1", "#x"):
        assert tab.run(f"getComputedStyle(document.querySelector('{where}')).color") == "rgb(27, 31, 36)"
    assert sum("Content Security Policy" in line for line in tab.complaints) >= 4


def test_a_fragment_filters(tab: Browser, report: Path) -> None:
    tab.open(report, "#filter=refuted")
    assert tab.run(f"{VISIBLE}.map(row => row.dataset.v)") == ["refuted"] * 5
    assert tab.run("document.getElementById('shown').textContent") == "5 of 13 claims"
    assert tab.run("document.querySelector('.total').innerText").split() == ["5", "refuted", "of", "13", "claims"]
    tab.open(report, "#filter=refuted&map=hash&helper=map_delete_elem")
    assert tab.run(f"{VISIBLE}.map(row => row.cells[5].querySelector('code').textContent.split('/').slice(-2)[0])") == [
        "47"
    ]
    assert tab.run("[...document.querySelectorAll('.cex')].filter(one => !one.hidden).map(one => one.id)") == ["c1"]


@pytest.mark.parametrize(
    "fragment", ["#filter=%E0%A4", "#kernel=<img src=x>", "#constructor=1&__proto__=2", "#a=", "#="]
)
def test_a_strange_fragment_does_no_harm(tab: Browser, report: Path, fragment: str) -> None:
    tab.open(report, fragment)
    assert tab.complaints == []
    assert tab.run("document.querySelectorAll('img').length") == 0
    assert tab.run(f"{VISIBLE}.length") == 13


def test_filters_by_keyboard_count_the_tables_anew(tab: Browser, releases: Path) -> None:
    tab.open(releases)
    cell = 'document.querySelector(\'td[data-r="6.1"][data-c="x86_64"]\').innerText'
    before = tab.run(cell)
    tab.run("document.getElementById('f-text').focus()")
    for letter in "map_delete":
        tab.key(letter)
    assert tab.run("location.hash") == "#text=map_delete"
    shown = tab.run(f"{VISIBLE}.map(row => row.cells[4].textContent)")
    assert set(shown) == {"map_delete_elem"}
    assert tab.run(cell) != before
    assert (
        tab.run("[...document.querySelectorAll('.grid td[data-c=redirect_map] a [data-v]:not([hidden])')].length") == 0
    )
    tab.run("document.querySelector('#filters button').focus()")
    tab.key("Enter")
    tab.run("document.querySelector('#filters').reset()")
    tab.run("new Promise(done => setTimeout(done, 50))")
    assert tab.run(cell) == before


def test_a_cell_of_the_summary_sets_the_filters(tab: Browser, releases: Path) -> None:
    tab.open(releases)
    tab.run('document.querySelector(\'td[data-r="6.12"][data-c="riscv64"] a\').click()')
    tab.run("new Promise(done => setTimeout(done, 50))")
    assert tab.run("[document.getElementById('f-kernel').value, document.getElementById('f-abi').value]") == [
        "6.12",
        "riscv64",
    ]
    rows = tab.run(f"{VISIBLE}.map(row => [row.cells[1].textContent, row.cells[2].textContent])")
    assert rows
    assert all(row == ["6.12", "riscv64"] for row in rows)


def test_the_graph_is_drawn_and_its_size_has_keys(tab: Browser, report: Path) -> None:
    tab.open(report)
    assert tab.run("document.querySelectorAll('.graph .e.callback').length") == 4
    sizes = tab.run("[...document.querySelectorAll('.graph .e')].map(one => one.getTotalLength())")
    assert len(sizes) > 10
    assert min(sizes) > 20
    strokes = tab.run(
        "['direct', 'callback', 'flow'].map(kind => getComputedStyle(document.querySelector('.graph .e.' + kind)))"
        ".map(style => [style.stroke, style.strokeDasharray])"
    )
    assert len({stroke for stroke, _ in strokes}) == 3
    assert [dash for _, dash in strokes] == ["none", "2px, 4px", "none"]
    wide = "document.querySelector('.graph').getBoundingClientRect().width"
    before = tab.run(wide)
    tab.run("document.querySelector('.canvas').focus()")
    tab.key("+")
    assert tab.run(wide) == pytest.approx(1.25 * before, abs=1)
    tab.key("-")
    tab.key("-")
    assert tab.run(wide) == pytest.approx(before / 1.25, abs=1)
    tab.run("document.querySelector('.zoom button').click()")
    assert tab.run(wide) == pytest.approx(before, abs=1)


def test_the_graph_moves_by_keys(tab: Browser, report: Path) -> None:
    """On a phone it is wider than the screen; it begins with its entry in the middle."""
    tab.open(report, width=390)
    left = "document.querySelector('.canvas').scrollLeft"
    before = tab.run(left)
    assert before > 0
    tab.run("document.querySelector('.canvas').scrollLeft = 0")
    tab.run("document.querySelector('.canvas').focus()")
    tab.key("ArrowRight")
    tab.run("new Promise(done => setTimeout(done, 500))")
    assert tab.run(left) > 0


def test_a_link_unfolds_what_it_points_to(tab: Browser, report: Path) -> None:
    tab.open(report)
    tab.run("document.querySelectorAll('details').forEach(one => one.open = false)")
    tab.run("document.querySelector('.sites a').click()")
    tab.run("new Promise(done => setTimeout(done, 50))")
    assert tab.run("document.querySelector(location.hash).checkVisibility()")


def test_it_is_read_without_a_script(tab: Browser, report: Path) -> None:
    tab.open(report, script=False)
    tab.call("Emulation.setScriptExecutionDisabled", value=False)
    assert tab.run("document.getElementById('filters').checkVisibility()") is False
    assert tab.run(f"{VISIBLE}.length") == 13
    assert tab.run("document.querySelector('.graph').checkVisibility()")
    assert tab.run("document.querySelectorAll('.zoom').length") == 0


def test_it_is_printed(tab: Browser, report: Path) -> None:
    tab.open(report, dark=True)
    pdf = b64decode(tab.call("Page.printToPDF", printBackground=True)["data"])
    assert pdf.startswith(b"%PDF-")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 12
    tab.call("Emulation.setEmulatedMedia", media="print")
    assert tab.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.run("document.getElementById('filters').checkVisibility()") is False
