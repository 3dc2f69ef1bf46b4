"""The HTML report: text stays text, the same in every run, bounded, and what a reader is to find is there."""

import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from time import perf_counter

import pytest
from html_tree import Node, parsed
from hypothesis import given
from hypothesis import strategies as st

from model.isa.insn import Insn
from model.kernel.abi import ABIS
from model.kernel.data import load_release
from model.program import Line, Map, MapRef, Object, Program, Subprogram
from model.rewrite.config import Config
from proofs.check_program import Checked, check
from proofs.claims import Claims
from proofs.cli import main
from proofs.obligation import Shown
from proofs.report.html.elements import LONGEST, element, joined, shipped
from proofs.report.html.page import as_html
from proofs.report.listing import helper_names
from proofs.report.record import Part, Place, Record, Report, Subject, program_records, setting
from proofs.report.text import clean
from proofs.solver import Solver

OBJECTS = Path(__file__).resolve().parent.parent / "data" / "objects"
RELEASE, ABI = load_release("6.1"), ABIS["x86_64"]
TAGS = {
    *("html", "head", "meta", "link", "title", "style", "script", "body", "header", "main", "section", "article"),
    *("h1", "h2", "h3", "p", "ul", "li", "dl", "dt", "dd", "div", "span", "a", "b", "strong", "small", "code", "br"),
    *("details", "summary", "form", "label", "select", "option", "input", "button", "output"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td"),
    *("svg", "symbol", "path", "defs", "marker", "use", "g", "text"),
}
"""Every element that the page may have."""
HOSTILE = (
    *("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</script>", "</style><b>", "<!--", "]]>"),
    *("&lt;", "&#60;", "\x1b[31m", "\0", "\r\n", "\u202eevil", "\ud800", "' onload='x", "javascript:alert(1)", "#a=b"),
)
texts = st.text(max_size=40) | st.sampled_from(HOSTILE)


def report_of(*programs: tuple[Object, Checked]) -> Report:
    records = [record for found, checked in programs for record in program_records(found, checked)]
    return Report(setting("check", [RELEASE], [ABI]), records, [], list(programs), helper_names(RELEASE))


def checked(program: Program) -> Checked:
    return check(program, Claims(RELEASE, ABI, Solver()), Config(arch="x86_64"))


def deleting(name: str = "prog", map_name: str = "names", line: Line | None = None, filler: int = 0) -> Program:
    """r2 = r10; r2 += -8; *(u64 *)(r10 -8) = 0; r1 = map; call map_delete_elem; r0 = 0, `filler` times; exit."""
    site = (Insn(0xBF, 2, 10), Insn(0x07, 2, imm=-8), Insn(0x7A, 10, off=-8), Insn(0x18, 1, 1), Insn(0))
    insns = (*site, Insn(0x85, imm=3), *[Insn(0xB7, 0)] * (filler + 1), Insn(0x95))
    return Program(
        name,
        insns,
        (Map(map_name, "hash", 8, 8, 4),),
        (Subprogram(name, 0, len(insns)),),
        {3: MapRef(0)},
        {5: line} if line is not None else {},
        section="xdp",
    )


def safe(text: str) -> Node:
    """The page's tree, after a look for anything that only an input could have put there."""
    root = parsed(text)
    nodes = root.all()
    assert {node.tag for node in nodes} <= TAGS
    for node in nodes:
        assert not [name for name in node.attributes if name.startswith("on") or name in ("src", "style")]
        href = node.attributes.get("href", "#")
        assert href.startswith("#") or (node.tag, href) == ("link", "data:,")
    policy = root.one("meta", **{"http-equiv": "Content-Security-Policy"}).attributes["content"]
    for tag in ("style", "script"):
        digest = b64encode(sha256(root.one(tag).text().encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    return root


def test_an_element_is_what_it_says() -> None:
    assert element("td", "a<b>&amp;", class_="x", data_v='"', hidden=True, id=None).html == (
        '<td class="x" data-v="&quot;" hidden>a&lt;b&gt;&amp;amp;</td>'
    )
    assert element("br").html == "<br>"
    assert joined(["<", element("b", "\x1b\n"), None]).html == "&lt;<b>\\x1b\\n</b>"


@pytest.mark.parametrize(
    ("tag", "attributes"),
    [
        *(("script", {}), ("style", {}), ("a b", {})),
        *(("p", {"onclick": "x"}), ("p", {"ONLOAD": "x"}), ("p", {"style": "x"}), ("p", {"a b": "x"})),
        *(("a", {"href": "x:y"}), ("a", {"href": "//x"}), ("img", {"src": "x"})),
    ],
)
def test_what_could_do_more_than_show_is_refused(tag: str, attributes: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="expected"):
        element(tag, **attributes)


def test_a_script_cannot_end_early() -> None:
    with pytest.raises(ValueError, match="end early"):
        shipped("script", "'</SCRIPT>'")


@given(texts, texts)
def test_any_text_is_read_back(child: str, attribute: str) -> None:
    root = parsed(element("p", child, title=attribute).html)
    (node,) = root.children
    assert isinstance(node, Node)
    assert (node.tag, node.text(), node.attributes) == ("p", clean(child), {"title": clean(attribute)})


def test_a_long_text_is_cut_and_says_so() -> None:
    text = element("p", "<" * (LONGEST + 5)).html
    assert text == f"<p>{'&lt;' * LONGEST}… (5 more characters)</p>"


@st.composite
def records(draw: st.DrawFn) -> Record:
    verdict = draw(st.sampled_from(["proved", "refuted", "unknown", "unsupported"]))
    words = st.builds(Shown, texts, st.just(64), st.integers(0, 2**64 - 1))
    parts = st.builds(Part, texts, st.sampled_from(["proved", "refuted"]), texts, texts, st.tuples(words, words), texts)
    place = st.builds(Place, texts, texts, st.none() | st.integers(0, 9), texts, st.integers(0, 9), texts)
    about = st.builds(Subject, texts, texts, st.tuples(texts), texts)
    return Record(
        draw(texts), draw(texts), verdict, draw(texts), draw(texts), draw(texts), draw(st.none() | place),
        draw(st.tuples(parts, parts)), draw(texts), draw(about),
    )  # fmt: skip


@given(st.lists(records(), max_size=4), st.lists(texts, max_size=2))
def test_any_record_stays_text(some: list[Record], notes: list[str]) -> None:
    report = Report(setting("check", [RELEASE], [ABI]), some, notes)
    text = as_html(report, "1")
    assert text == as_html(report, "1")
    shown = safe(text).text()
    for record in some:
        parts = [text for part in record.refutations for text in (part.name, part.at, part.reason, part.suggestion)]
        where = record.place
        places = [where.program, where.file] if where is not None and record.refutations else []
        for told in (record.name, record.reason, record.subject.helper, record.baseline, *parts, *places):
            assert clean(told) in shown
    assert all(clean(note) in shown for note in notes)


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "\x1b]0;x\x07\u202e"])
def test_a_hostile_program_stays_text(name: str) -> None:
    program = replace(deleting(name, name, Line(name, 7, 1, name)), section=name, notes=(name,))
    shown = safe(as_html(report_of((Object(name, (program,), notes=(name,)), checked(program))), "1"))
    assert shown.one("section", "program").one("h3").text() == f"{clean(name)} in {clean(name)}, {clean(name)}"
    assert shown.one("table", "l").one("tr", "s").text() == f"; {clean(name)} {clean(name)}:7"
    assert clean(f"map[{name}]") in shown.one("table", "l").text()
    assert clean(f"{name}: 0-7") in [text.text() for text in shown.one("svg", "graph").all("text")]


def page(tmp_path: Path, *arguments: str, status: int = 1) -> Node:
    place = tmp_path / "report.html"
    assert main(["check", "--format", "html", "-o", str(place), *arguments]) == status
    return safe(place.read_text(encoding="utf-8"))


def test_a_counterexample_has_four_parts_in_order(tmp_path: Path) -> None:
    """On 6.1 the operations return int: r0 of a direct call has 32 bits, -22 is not sign-extended."""
    root = page(tmp_path, "--kernel", "6.1", "--match", "dispatch/*/hash/map_update_elem/r0")
    example = root.one("article", "cex")
    assert [term.text() for term in example.all("dt")] == ["Reason", "At", "Causal path", "Suggestion"]
    reason, at, path, suggestion = example.all("dd")
    assert reason.text().startswith("the operation returns 32 bits (signed)")
    assert at.text().startswith("dispatch/6.1/x86_64/hash/map_update_elem/r0")
    assert "kernel/bpf/hashtab.c:" in at.text()
    rows = [[cell.text() for cell in row.children if isinstance(cell, Node)] for row in path.all("tr")]
    assert rows[0] == ["step", "what", "helper", "direct"]
    assert rows[-1] == ["5", "r0≠ the two part here", "0xffffffffffffffea (-22)", "0x00000000ffffffea (4294967274)"]
    assert [len(row) for row in rows[1:]] == [3, 3, 3, 3, 4]
    assert suggestion.text().startswith("let the operation return long")


def test_the_same_values_are_shown_once_and_all_their_places_named(tmp_path: Path) -> None:
    root = page(tmp_path, "--kernel", "6.1", "--arch", "x86_64,arm64", "--match", "dispatch/*/*hash/map_delete_elem/r0")
    example = root.one("article", "cex")
    names = [code.text() for item in example.all("li") for code in item.all("code")]
    types = ("hash", "percpu_hash", "lru_hash", "lru_percpu_hash", "sockhash")
    assert names == [f"dispatch/6.1/{abi}/{kind}/map_delete_elem/r0" for abi in ("x86_64", "arm64") for kind in types]
    assert [len(one.all("li")) for one in example.all("ul")] == [3, 7]


def test_the_summary_counts_by_kernel_abi_map_type_and_helper(tmp_path: Path) -> None:
    """Operations return long from 6.4 on: refuted before on each ABI, proved after."""
    selected = ("--kernel", "6.1,6.12", "--arch", "x86_64,arm64", "--match", "dispatch/*/hash/map_delete_elem")
    root = page(tmp_path, *selected)
    grids = root.all("table", "grid")
    assert [grid.one("caption").text() for grid in grids] == [
        "Claims by kernel and ABI",
        "Claims by map type and helper",
    ]
    cells = {(cell.attributes["data-r"], cell.attributes["data-c"]): cell for grid in grids for cell in grid.all("td")}
    assert {place: cell.text() for place, cell in cells.items()} == {
        ("6.1", "x86_64"): "1 refuted",
        ("6.1", "arm64"): "1 refuted",
        ("6.12", "x86_64"): "1 proved",
        ("6.12", "arm64"): "1 proved",
        ("hash", "map_delete_elem"): "2 proved2 refuted",
    }
    assert cells["6.1", "arm64"].one("a").attributes["href"] == "#kernel=6.1&abi=arm64"
    shapes = {use.attributes["href"] for use in cells["hash", "map_delete_elem"].all("use")}
    assert shapes == {"#v-proved", "#v-refuted"}
    outlines = [symbol.all("path")[0].attributes["d"] for symbol in root.all("symbol")]
    assert len(set(outlines)) == 4
    rows = [
        [cell.text() for cell in row.children[:5] if isinstance(cell, Node)]
        for row in root.one("table", "claims").all("tr")
    ]
    assert ["refuted", "6.1", "arm64", "hash", "map_delete_elem"] in rows
    assert len(rows) == 5


def test_a_listing_marks_what_changed(tmp_path: Path) -> None:
    """for_each.c, sum_hash: the walk of `names` with `add`; line 72 of the source."""
    root = page(tmp_path, "--kernel", "6.1", "--program", "sum_hash", str(OBJECTS / "for_each.o"))
    listing = root.one("table", "l")
    (changed,) = listing.all("tr", "c")
    before, mark, after = (cell.text() for cell in changed.all("td"))
    assert before == "  10: (85) call bpf_for_each_map_elem#164"
    assert mark == "|"
    assert after == "  10: (85) call bpf_for_each_hash_elem#?"
    assert "; long calls = bpf_for_each_map_elem(&names, add, &sum, 0); ./for_each.c:72" in [
        row.text() for row in listing.all("tr", "s")
    ]
    assert [row.text() for row in listing.all("tr", "f")] == ["sum_hash:", "add:"]
    plain = [row for row in listing.all("tr") if "class" not in row.attributes and row.all("td")]
    assert all(row.all("td")[1].text() == "" for row in plain)
    link = root.one("table", "sites").one("a")
    assert link.attributes["href"] == f"#{changed.attributes['id']}"


def test_added_lines_and_shifted_jumps_have_marks_of_their_own(tmp_path: Path) -> None:
    """An inlined hash lookup is three instructions (6.12: call, test, addition): a jump over it is two longer."""
    place = tmp_path / "jump.asm"
    place.write_text(
        ".map names hash 8 8 4\nr2 = r10\nr2 += -8\n*(u64 *)(r10 -8) = 0\nif r2 == 0 goto pc+3\nr1 = map[names]\n"
        "call bpf_map_lookup_elem\nr0 = 0\nexit\n",
        encoding="utf-8",
    )
    root = page(tmp_path, "--kernel", "6.12", str(place), status=0)
    listing = root.one("table", "l")
    rows = {kind: [[cell.text() for cell in row.all("td")] for row in listing.all("tr", kind)] for kind in "cad"}
    assert rows["c"] == [["   6: (85) call bpf_map_lookup_elem#1", "|", "   6: (85) call __htab_map_lookup_elem#?"]]
    assert [row[1] for row in rows["a"]] == [">", ">"]
    assert rows["d"] == [["   3: (15) if r2 == 0x0 goto pc+3", "~", "   3: (15) if r2 == 0x0 goto pc+5"]]


def test_a_graph_tells_its_edges_apart(tmp_path: Path) -> None:
    """for_each.c, search_all: two operations of three maps call back three functions, one of them in both."""
    root = page(tmp_path, "--kernel", "6.1", "--program", "search_all", str(OBJECTS / "for_each.o"))
    graph = root.one("svg", "graph")
    titles = [title.text() for title in graph.all("title")]
    assert [title for title in titles if title.startswith("callback: ")] == [
        "callback: operation bpf_for_each_array_elem → first_big: 35-38",
        "callback: operation bpf_for_each_array_elem → add: 50-58",
        "callback: operation bpf_for_each_hash_elem → first_big: 35-38",
        "callback: operation bpf_for_each_hash_elem → forget: 41-49",
    ]
    assert "direct: forget: 41-49 → operation htab_map_delete_elem" in titles
    ends = {edge.attributes["class"]: edge.attributes["marker-end"] for edge in graph.all("path", "e")}
    assert ends == {
        "e direct": "url(#end-direct)",
        "e callback": "url(#end-callback)",
        "e flow": "url(#end-flow)",
    }
    shapes = {marker.attributes["id"]: marker.one("path").attributes["d"] for marker in root.all("marker")}
    assert len(set(shapes.values())) == len(shapes) == 6
    style = root.one("style").text()
    dashes = re.findall(r"\.e\.(\w+) \{[^}]*stroke-dasharray: ([^;]+);", style)
    assert {name for name, _ in dashes} == {"dispatch", "callback", "tail"}
    assert len({dash for _, dash in dashes}) == 3


def test_two_runs_are_the_same_bytes_and_times_are_asked_for(tmp_path: Path) -> None:
    arguments = ("--kernel", "6.1", str(OBJECTS / "for_each.o"), str(OBJECTS / "two_maps.o"))
    made = []
    for number in range(2):
        place = tmp_path / str(number)
        assert main(["check", *arguments, "--format", "html", "-o", str(place)]) == 1
        made.append(place.read_bytes())
    assert made[0] == made[1]
    assert not parsed(made[0].decode()).one("table", "claims").one("thead").text().endswith("ms")
    timed = page(tmp_path, *arguments, "--times").one("table", "claims")
    assert timed.one("thead").text().endswith("ms")
    assert all(re.fullmatch(r"\d+\.\d", row.all("td")[-1].text()) for row in timed.one("tbody").all("tr"))


def test_a_long_program_is_folded_to_its_sites() -> None:
    program = deleting(filler=100_000)
    found = checked(program)
    started = perf_counter()
    text = as_html(report_of((Object("long.o", (program,)), found)), "1")
    assert perf_counter() - started < 10
    assert len(text) < 100_000
    (gap,) = safe(text).one("table", "l").all("tr", "g")
    assert gap.text() == "… 99996 lines folded: 12 to 100007"


@pytest.mark.slow
def test_many_sites_and_names_of_megabytes_are_bounded() -> None:
    """20,000 call sites of one map with a name of 2 MB, in 100,000 slots; 7 parts of Patching, and Direct."""
    one = (Insn(0xBF, 2, 10), Insn(0x07, 2, imm=-8), Insn(0x18, 1, 1), Insn(0), Insn(0x85, imm=3))
    insns = (Insn(0x7A, 10, off=-8), *one * 20_000, Insn(0xB7, 0), Insn(0x95))
    refs = {1 + 5 * number + 2: MapRef(0) for number in range(20_000)}
    name = "n" * 2_000_000
    program = Program("many", insns, (Map(name, "hash", 8, 8, 4),), (Subprogram("many", 0, len(insns)),), refs)
    found = checked(program)
    assert len(found.sites) == 20_000
    started = perf_counter()
    text = as_html(report_of((Object("many.o", (program,)), found)), "1")
    assert perf_counter() - started < 10
    assert len(text) < 20_000_000
    assert "8008 proved or further claims are not listed here" in safe(text).one("section", id="claims").one("p").text()
