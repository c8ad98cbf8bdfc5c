"""The pages: their Python can be run as it stands, and their links lead somewhere."""

import ast
import importlib
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "README.zh-CN.md", *sorted((ROOT / "docs").glob("*.md"))]
EXCERPTS = ("eval.md", "prefix.md")  # their examples go on from the reader's own agent, or requests
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
NO_PART_OF_AN_ANCHOR = re.compile(r"[^\w\- ]")


class Example(NamedTuple):
    """A block of Python on a page, and the line that it begins at. What is decorated may be left out at its end."""

    page: Path
    line: int
    code: str

    @property
    def is_whole(self) -> bool:
        """Whether it leaves nothing out: then it can be run as it stands."""
        begins = re.search(r"^(from|import) hotloop", self.code, re.MULTILINE)
        return bool(begins) and "..." not in self.code and self.page.name not in EXCERPTS


@cache
def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def examples() -> list[Example]:
    return [
        Example(page, read(page).count("\n", 0, found.start()) + 2, completed(found[3]))
        for page in PAGES
        for found in FENCE.finditer(read(page))
        if found[2] == "python"
    ]


def completed(code: str) -> str:
    return f"{code}def decorated(): ...\n" if code.rstrip().rpartition("\n")[2].startswith("@") else code


def prose(page: Path) -> str:
    """The page without its blocks of code."""
    return FENCE.sub("", read(page))


def anchors(page: Path) -> set[str]:
    """What headings are linked by: in small letters, without punctuation, with hyphens for blanks."""
    return {NO_PART_OF_AN_ANCHOR.sub("", heading.lower()).replace(" ", "-") for heading in HEADING.findall(prose(page))}


def files_linked(page: Path) -> list[str]:
    return [link for link in LINK.findall(prose(page)) if not re.match(r"\w+:", link)]


def where(example: Example) -> str:
    return f"{example.page.name}:{example.line}"


@pytest.mark.parametrize("example", examples(), ids=where)
def test_an_example_is_python_and_what_it_imports_of_hotloop_is_there(example):
    tree = compile(example.code, where(example), "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "hotloop":
            module = importlib.import_module(node.module)
            missing = [each.name for each in node.names if not hasattr(module, each.name)]
            assert not missing, f"{node.module} has no {missing}"


def test_an_example_that_leaves_nothing_out_can_be_run(tmp_path):
    for example in examples():
        if example.is_whole:
            (tmp_path / f"{example.page.stem}_{example.line}.py").write_text(example.code, encoding="utf-8")
    assert len(list(tmp_path.iterdir())) > 10
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select=F821,F704,F811", "."]
    checked = subprocess.run(ruff, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings_that_are_there(page):
    for link in files_linked(page):
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), f"there is no {link}"
        assert not anchor or anchor in anchors(target), f"there is no heading for {link}"


def test_the_readme_leads_to_the_same_places_in_both_languages():
    english, chinese = (set(files_linked(ROOT / name)) for name in ("README.md", "README.zh-CN.md"))
    assert english - {"README.zh-CN.md"} == chinese - {"README.md"}


def test_every_page_is_linked_from_the_readme():
    linked = {(ROOT / link.partition("#")[0]).name for link in files_linked(ROOT / "README.md")}
    assert {page.name for page in (ROOT / "docs").glob("*.md")} <= linked


def test_the_modules_that_the_map_of_the_house_names_are_there():
    named = set(re.findall(r"\w+\.py", read(ROOT / "docs" / "structure.md")))
    assert named <= {path.name for path in (ROOT / "src").rglob("*.py")}
