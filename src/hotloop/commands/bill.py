"""`hotloop bill`: what a version takes and costs, part by part, and what another one has changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec
from cyclopts import App, Parameter

from hotloop.commands.billtables import bill_grids, bill_head
from hotloop.commands.console import messages, results, write_json
from hotloop.commands.difftables import diff_grids, diff_head, verdict
from hotloop.commands.grids import Grid
from hotloop.commands.options import Flag, Json, Name, Share
from hotloop.commands.selection import Selection
from hotloop.errors import ConfigError
from hotloop.fields import in_plain_words, require
from hotloop.files import read_text, write_whole
from hotloop.insight.bill.asdict import bill_dict, diff_dict
from hotloop.insight.bill.bill import Bill
from hotloop.insight.bill.billing import bill_of
from hotloop.insight.bill.comparing import compare
from hotloop.trace.store import Which
from hotloop.visible import one_line
from hotloop.words import listed

_HELP = """Record what a version of an agent takes and costs, and hold another one against it.

Example: hotloop bill diff 1.3 1.4"""

_FOLDER = Path("bills")
_ANY = Selection()

bill = App(name="bill", help=_HELP)


Folder: TypeAlias = Annotated[Path, Parameter(metavar="FOLDER")]


@bill.command
def record(
    name: Name | None = None,
    /,
    *,
    selection: Selection = _ANY,
    folder: Folder = _FOLDER,
    file: Path | None = None,
    markdown: Flag = False,
    as_json: Json = False,
) -> int:
    """Keep the bill of recorded runs in a file, under the name of their version or another one.

    Example: hotloop bill record --version 1.3 --agent orders

    Parameters
    ----------
    name
        What it is called. [default: the --version of the runs]
    folder
        Where bills are kept, each in a file of its name.
    file
        Write it to this file instead.
    markdown
        Print Markdown instead.
    as_json
        Print one object instead.
    """
    name = name or selection.version
    if name is None:
        raise ConfigError("The bill has no name: give one, or --version, the version of the runs that it is of.")
    made = _made(name, selection)
    path = file or _place(name, folder)
    earlier = _earlier(path, made)
    _write(path, made)
    if earlier is not None:
        messages().print(f"replaced {one_line(bill_head(earlier))}", markup=False, soft_wrap=True)
    if as_json:
        write_json({"file": str(path)} | bill_dict(made))
    else:
        _show(bill_head(made), bill_grids(made), markdown=markdown)
        messages().print(f"written to {path}", style="dim", markup=False, soft_wrap=True)
    return 0


@bill.command
def diff(
    before: str,
    after: str,
    /,
    *,
    selection: Selection = _ANY,
    folder: Folder = _FOLDER,
    tolerance: Share = 0.05,
    markdown: Flag = False,
    as_json: Json = False,
) -> int:
    """Hold one bill against another: what has changed beyond chance, what that costs, whose it is.

    Exits with 1 if something became worse by more than is tolerated, or newly went over its budget.

    Example: hotloop bill diff 1.3 1.4 --markdown

    Parameters
    ----------
    before
        The earlier version: the name of a bill that was recorded, its file, or a version of which runs are recorded.
    after
        The later version.
    folder
        Where bills are kept.
    tolerance
        By how much a figure may become worse, like 5%. [default: 5%]
    markdown
        Print Markdown, for a pull request, instead.
    as_json
        Print one object instead.
    """
    require(selection.version is None, "The two versions are given; leave out --version.")
    found = compare(_found(before, folder, selection), _found(after, folder, selection), tolerance)
    if as_json:
        write_json(diff_dict(found))
    else:
        _show(diff_head(found), diff_grids(found), markdown=markdown, last=verdict(found))
    return 0 if found.held else 1


def _made(version: str, selection: Selection) -> Bill:
    """The bill of these runs. Raises ConfigError if none of them has an answer."""
    with messages().status("Reading the runs"):
        return bill_of(selection.store().find(selection.which()), version)


def _found(name: str, folder: Path, selection: Selection) -> Bill:
    """The bill that a name stands for. Raises ConfigError if it stands for none."""
    if name.endswith(".json"):
        return _read(Path(name))
    if (path := _place(name, folder)).exists():
        return _read(path)
    try:
        store = selection.store()
    except ConfigError as error:
        raise ConfigError(f"There is no bill {path}. {error}") from None
    if not store.infos(Which(version=name, limit=1)):
        names = {info.version for info in store.infos()} | {each.stem for each in folder.glob("*.json")}
        there = listed(name, sorted(filter(None, names)))
        raise ConfigError(f"There is no bill {path} and no run of version {name}; there are {there}.")
    return _made(name, replace(selection, version=name))


def _read(path: Path) -> Bill:
    try:
        return msgspec.json.decode(read_text(path), type=Bill)
    except msgspec.ValidationError as error:
        what, where = in_plain_words(error)
        raise ConfigError(f"The file {path} is no bill: {where}: {what}.") from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"The file {path} is no bill: {error}.") from None


def _write(path: Path, made: Bill) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = error.strerror or error
        raise ConfigError(f"The folder {path.parent} cannot be made: {why}. Give another --folder or --file.") from None
    write_whole(path, msgspec.json.encode(made) + b"\n")


def _place(name: str, folder: Path) -> Path:
    plain = not set(name) & set("/\\\0") and not name.startswith(".")
    require(plain, f"{name!r} cannot be the name of a file; name the bill otherwise, or give --file.")
    return folder / f"{name}.json"


def _earlier(path: Path, made: Bill) -> Bill | None:
    """The bill that is there. Raises ConfigError if it is that of another agent."""
    if not path.exists():
        return None
    found = _read(path)
    others = f"{path} is the bill of {', '.join(found.agents) or 'an agent without a name'}; give --file or --folder."
    require(found.agents == made.agents, others)
    return found


def _show(head: str, grids: list[Grid], *, markdown: bool, last: str = "") -> None:
    if markdown:
        print("\n".join([one_line(head), *(grid.markdown() for grid in grids), *([f"\n{last}"] if last else [])]))
        return
    console = results()
    console.print(one_line(head), markup=False, soft_wrap=True)
    for grid in grids:
        grid.show()
    if last:
        console.print(f"\n{one_line(last)}", markup=False, soft_wrap=True)
