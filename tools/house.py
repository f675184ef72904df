"""Measure how well the code keeps the rules of the house, and fail where a rule is broken.

    python tools/house.py            print the figures
    python tools/house.py --check    print what breaks a rule, and exit with 1 if anything does

The rules: a top-level class name occurs once in the product; a package has at most `MOST_MODULES`
modules behind its door (`__init__.py`), which says what belongs there; a docstring does not begin
with a headless "What ...", "Who ..." or "How ..." (`EXCEPTIONS` lists those that may), and a file
or a class that it quotes exists.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = ROOT / "src" / "windlass"
INSTRUMENTS = ROOT / "lab" / "windlass_lab"
MOST_MODULES = 14
EXEMPT = {PRODUCT / "cli" / "commands"}
"""One file per command is the rule there."""
HEADLESS = {
    *("What", "Whatever", "Who", "Whoever", "Whom", "Whose", "How", "Where", "When", "Why"),
    *("Which", "Whether"),
}
EXCEPTIONS: frozenset[str] = frozenset()
"""Docstrings that may begin so, as `path:qualified.name`; there should be next to none."""

QUOTED_FILE = re.compile(r"`((?:\w+/)*\w+\.py)`")
QUOTED_CLASS = re.compile(r"`(?:\w+\.)*([A-Z][a-z]\w*[A-Z]\w*|[A-Z][a-z]+)(?:\.\w+)*`")

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Figures:
    """The measurements of the product and its instruments."""

    collisions: dict[str, list[Path]]
    crowded: dict[Path, int]
    without_charter: list[Path]
    headless: list[str]
    dangling: list[str]
    product_lines: int


def main() -> int:
    """Print the figures, or with --check the broken rules; return the exit status."""
    parser = argparse.ArgumentParser(description="Measure the rules of the house.")
    parser.add_argument("--check", action="store_true", help="fail where a rule is broken")
    figures = measure()
    if parser.parse_args().check:
        broken = list(broken_rules(figures))
        print("\n".join(broken) or "The house is in order.")
        return 1 if broken else 0
    print(f"class names used twice: {len(figures.collisions)}")
    most = max(len(modules_of(package)) for package in packages() if package not in EXEMPT)
    print(f"modules behind one package door: at most {most}")
    print(f"docstrings with a headless start: {len(figures.headless)}")
    print(f"lines of src/windlass: {figures.product_lines}")
    return 0


def measure() -> Figures:
    """Read all source files and return the measurements."""
    classes: defaultdict[str, list[Path]] = defaultdict(list)
    headless: list[str] = []
    dangling: list[str] = []
    lines = 0
    paths = sorted([*PRODUCT.rglob("*.py"), *INSTRUMENTS.rglob("*.py")])
    trees = {path: ast.parse(path.read_text()) for path in paths}
    words = frozenset(word for path in paths for word in code_words(path.read_text()))
    for path, tree in trees.items():
        text = path.read_text()
        if path.is_relative_to(PRODUCT):
            lines += text.count("\n")
            for node in tree.body:
                if isinstance(node, ast.ClassDef):
                    classes[node.name].append(path.relative_to(ROOT))
        headless += [
            f"{path.relative_to(ROOT)}:{name}"
            for name, docstring in docstrings(tree)
            if docstring.split(maxsplit=1)[0].strip(",;:?.") in HEADLESS
        ]
        dangling += [
            f"{path.relative_to(ROOT)}:{name} quotes `{quoted}`"
            for name, docstring in docstrings(tree)
            for quoted in missing_references(docstring, path, words)
        ]
    sizes = {package: len(modules_of(package)) for package in packages()}
    return Figures(
        collisions={name: paths for name, paths in classes.items() if len(paths) > 1},
        crowded={
            package: size
            for package, size in sizes.items()
            if size > MOST_MODULES and package not in EXEMPT
        },
        without_charter=[package for package in packages() if not has_charter(package)],
        headless=headless,
        dangling=dangling,
        product_lines=lines,
    )


def broken_rules(figures: Figures) -> Iterator[str]:
    """Yield one sentence for each rule that is broken."""
    for name, paths in sorted(figures.collisions.items()):
        yield f"class {name} is defined in {' and '.join(map(str, paths))}: give one another name"
    for package, size in figures.crowded.items():
        where = package.relative_to(ROOT)
        yield f"{where} has {size} modules, at most {MOST_MODULES} fit behind one door: divide it"
    for package in figures.without_charter:
        yield f"{package.relative_to(ROOT)}/__init__.py must say what belongs there"
    for place in sorted(set(figures.headless) - EXCEPTIONS):
        yield f"{place}: the docstring must begin with a verb, or with an article and a noun"
    for place in sorted(figures.dangling):
        yield f"{place}, which does not exist: name what it is called now"
    for place in sorted(EXCEPTIONS - set(figures.headless)):
        yield f"{place} needs no exception any more: remove it from tools/house.py"


def code_words(text: str) -> set[str]:
    """Return the identifiers of a module outside its docstrings, with the words of its strings."""
    without = re.sub(r'"""(?:.|\n)*?"""', "", text)
    return set(re.findall(r"[A-Za-z_]\w*", without))


def missing_references(docstring: str, path: Path, words: frozenset[str]) -> Iterator[str]:
    """Yield the files and classes that a docstring quotes and that do not exist.

    A file may be named relative to any folder above the module; a class counts as existing if its
    name occurs in any code, so classes of other libraries do as well.
    """
    folders = [*path.parents, PRODUCT, INSTRUMENTS.parent]
    for name in QUOTED_FILE.findall(docstring):
        if not any((folder / name).exists() for folder in folders if folder.is_relative_to(ROOT)):
            yield name
    yield from (name for name in QUOTED_CLASS.findall(docstring) if name not in words)


def packages() -> list[Path]:
    """Return the folders that are packages."""
    return [
        init.parent for top in (PRODUCT, INSTRUMENTS) for init in sorted(top.rglob("__init__.py"))
    ]


def modules_of(package: Path) -> list[Path]:
    """Return the modules of a package, without its `__init__.py` and its sub-packages."""
    return [path for path in package.glob("*.py") if path.name != "__init__.py"]


def has_charter(package: Path) -> bool:
    """Return whether the `__init__.py` of a package has a docstring of more than one line."""
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    return "\n" in docstring


def docstrings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each docstring of a module, with the qualified name of its owner.

    Strings below an attribute count too: they describe it.
    """

    def walk(node: ast.Module | Definition, prefix: str) -> Iterator[tuple[str, str]]:
        if docstring := ast.get_docstring(node):
            yield prefix or "module", docstring
        for before, statement in zip(node.body, node.body[1:], strict=False):
            match before, statement:
                case (
                    ast.AnnAssign(target=target) | ast.Assign(targets=[target, *_]),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ) if text.strip():
                    yield f"{prefix}.{ast.unparse(target)}".lstrip("."), text
                case _:
                    pass
        for child in node.body:
            if isinstance(child, Definition):
                yield from walk(child, f"{prefix}.{child.name}".lstrip("."))

    yield from walk(tree, "")


if __name__ == "__main__":
    sys.exit(main())
