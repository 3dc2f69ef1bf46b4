"""The source tree in `tests/model/kernel/mini_tree/`: a few small files in the shape that the extractor reads.

`box` holds one value, `bag` many; `crate` has no operations, `locked` may not be used by programs. `write_tree`
copies it with replacements, so that a test can plant one fault in one file and see it in the rows.
"""

from pathlib import Path

HERE = Path(__file__).parents[1] / "model" / "kernel" / "mini_tree"
FILES = {path.relative_to(HERE).as_posix(): path.read_text() for path in sorted(HERE.rglob("*")) if path.is_file()}


def write_tree(root: Path, *changes: tuple[str, str, str]) -> Path:
    """The tree under `root`; each change is (file, old text, new text), and the old text must be there."""
    files = dict(FILES)
    for file, old, new in changes:
        assert old in files[file], (file, old)
        files[file] = files[file].replace(old, new)
    for file, text in files.items():
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root
