"""Documents are tested like code: blocks run, links resolve, commands and names exist.

`python tests/test_docs.py` writes the table of methods in docs/methods/index.md again.
"""

import ast
import importlib
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from dptransfer.cli.commands import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PLACEHOLDERS = {"src/dptransfer/a/b.py", "tests/a/test_b.py"}
NOT_MODULES = {"ledger.sqlite", "ledger.sqlite.key", "release.json", "sources.json", "noise.draw_once"}
NOT_MODULES |= {"audit.html", "audit.json", "audit.schema.json"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
METHODS_INDEX = ROOT / "docs" / "methods" / "index.md"
INSTALL = ROOT / "docs" / "start" / "install.md"
ARCHITECTURE = ROOT / "docs" / "explanation" / "architecture.md"
_TABLE_HEAD = "| Command line | Class | What it releases, and when to use it |\n|---|---|---|\n"
_METHODS = re.compile(rf"(?<={re.escape(_TABLE_HEAD)})(\|.*\n)*")
_FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(text: str, language: str) -> list[tuple[int, str]]:
    """Line number and content of each fenced block in a language."""
    return [
        (text.count("\n", 0, found.start()) + 1, found[2])
        for found in _FENCE.finditer(text)
        if found[1] == language
    ]


def prose(text: str) -> str:
    """The text without its fenced blocks."""
    return _FENCE.sub("", text)


def run_blocks(text: str, name: str, *, commands: bool = False) -> int:
    """Run the Python blocks of a page in one namespace, and its commands; how many blocks there were."""
    namespace, ran = {"__name__": "page"}, 0
    for found in _FENCE.finditer(text):
        line, block = text.count("\n", 0, found.start()) + 1, found[2]
        if found[1] == "python":
            # Blank lines in front, so that a traceback names the line of the page.
            exec(compile("\n" * line + block, name, "exec", dont_inherit=True), namespace)
            ran += 1
        elif found[1] == "sh" and commands:
            for command, _ in shown_commands(found[0]):
                run_command(command)
    return ran


def run_command(command: str) -> str:
    """What a command prints; it must end well."""
    ended = CliRunner().invoke(app, shlex.split(command, comments=True)[1:])
    assert ended.exit_code == 0, f"{command}\n{ended.output}"
    return ended.output


def anchors(text: str) -> set[str]:
    """The anchors that a page's headings make on GitHub."""
    heads = re.findall(r"^#+ (.+)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def broken_links(text: str, page: Path) -> list[str]:
    """Relative links whose file or heading does not exist."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        there = text if file == page else file.read_text() if file.is_file() else None
        if there is None or (anchor and anchor not in anchors(there)):
            broken.append(target)
    return broken


def shown_commands(text: str) -> list[tuple[str, bool]]:
    """Each `dptransfer ...` shown, and whether it stands in a shell block and so must be complete."""
    shell = "\n".join(block for _, block in blocks(text, "sh"))
    lines = [line.strip() for line in shell.replace("\\\n", " ").splitlines()]
    complete = [(line, True) for line in lines if line.startswith("dptransfer ")]
    inline = re.findall(r"`(dptransfer [a-z][^`]*)`", prose(text))
    return complete + [(command, False) for command in inline]


def complaint(command: str, complete: bool) -> str | None:
    """What the command line would say to this command; None if it would run."""
    current, words = typer.main.get_command(app), shlex.split(command, comments=True)[1:]
    while hasattr(current, "commands"):
        if not words:
            return "no command is named"
        name = words.pop(0)
        inner = current.get_command(None, name)  # a plug-in's, too
        if inner is None:
            return f"there is no command '{name}'"
        current = inner
        if not complete and not words:
            return None
    known = {option for parameter in current.params for option in parameter.opts}
    unknown = [word for word in words if re.match(r"--?[a-z]", word) and word.split("=")[0] not in known]
    if unknown:
        return f"there is no option {unknown[0]}"
    if complete:
        try:
            current.make_context("dptransfer", list(words))
        except (Exception, SystemExit) as problem:
            return f"{type(problem).__name__}: {problem}"
    return None


def contract() -> list[str]:
    layers = PROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    return [re.sub(r"dptransfer\.|[()]", "", layer) for layer in layers]


def each_page(page: Path):
    """A page as a parameter; one that encodes photographs takes long."""
    marks = [pytest.mark.slow] if page.name == "photographs.md" else []
    return pytest.param(page, id=str(page.relative_to(ROOT)), marks=marks)


@pytest.mark.parametrize("page", [each_page(page) for page in PAGES])
def test_every_python_block_runs(page, tmp_path, monkeypatch, repeatable_noise):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPTRANSFER_LEDGER", str(tmp_path / "default-ledger.sqlite"))
    ran = run_blocks(page.read_text(), str(page), commands=page.parent.name == "tutorials")
    needed = page.parent.name == "methods" or page.name in ("README.md", "adding-a-method.md")
    assert ran or not needed or page.name == "index.md", "this page must show at least one example"


def shown_session(text: str) -> list[tuple[str, list[str]]]:
    """The commands of the README's session, each with the lines of its output that are shown."""
    ((_, session),) = blocks(text, "console")
    commands = [part.splitlines() for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]]
    return [(command, shown) for command, *shown in commands]


def is_shown(line: str, output: str) -> bool:
    """Whether a line stands in an output, apart from its numbers, ids and what … leaves out."""

    def plain(text):
        return re.sub(r"[0-9a-f]{12}|\d+(\.\d+)?", "#", " ".join(text.split()))

    return plain(line.rstrip("…")).strip() in plain(output)


@pytest.mark.slow
def test_the_readme_shows_what_its_commands_print(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPTRANSFER_LEDGER", str(tmp_path / "ledger.sqlite"))
    monkeypatch.setenv("COLUMNS", "400")
    draw = blocks((ROOT / "docs" / "tutorials" / "photographs.md").read_text(), "python")[0][1]
    exec(compile(draw, "photographs.md", "exec"), {})
    session = shown_session((ROOT / "README.md").read_text())
    assert len(session) == 6
    for command, shown in session:
        output = run_command(command)
        missing = [line for line in shown if not is_shown(line, output)]
        assert not missing, f"{command} printed:\n{output}"
    assert not is_shown("new/0.png,scar,0.98", "new/0.png,mole,0.98")


def test_the_readme_shows_what_its_python_prints(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    readme = (ROOT / "README.md").read_text()
    run_blocks(readme, "README.md")
    ((_, shown),) = blocks(readme, "text")
    assert is_shown(shown, capsys.readouterr().out)


def test_the_readme_is_read_in_two_minutes():
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) <= 140
    assert len(readme.split()) <= 900


def test_a_block_that_fails_is_noticed():
    page = "```python\nx = 1\n```\ntext\n```python\nassert x == 2\n```\n"
    with pytest.raises(AssertionError) as failure:
        run_blocks(page, "page.md")
    assert failure.traceback[-1].lineno + 1 == 6
    with pytest.warns(UserWarning, match="loud"):
        run_blocks("```python\nimport warnings\nwarnings.warn('loud', stacklevel=1)\n```\n", "page.md")


def on_pages(find, pages=PAGES):
    """What is found on some pages, by page."""
    found = {str(page.relative_to(ROOT)): find(page) for page in pages}
    return {page: wrong for page, wrong in found.items() if wrong}


def test_every_relative_link_resolves():
    assert on_pages(lambda page: broken_links(page.read_text(), page)) == {}


def test_a_broken_link_is_noticed():
    text = "# One two: three\n[a](missing.md) [b](#one-two-three) [c](#four) [d](https://example.org/x)"
    assert broken_links(text, ROOT / "page.md") == ["missing.md", "#four"]
    assert broken_links("[a](README.md#nowhere)", ROOT / "page.md") == ["README.md#nowhere"]


def absent_files(text: str) -> list[str]:
    """Files and modules of this library, named in backticks, that do not exist."""
    library = ROOT / "src" / "dptransfer"
    found = []
    for name in re.findall(r"`((?:\w+/)+\w+\.py)`", text):
        places = (ROOT, library)
        if name not in PLACEHOLDERS and not any((place / name).is_file() for place in places):
            found.append(name)
    for name in re.findall(r"`(?:dptransfer\.)?((?:[a-z]\w*\.)+\w+)(?:\(\))?`", text):
        package, first, *_ = name.split(".")
        folder = library / package
        if folder.is_dir() and not any(folder.glob(f"{first}*")):
            module = importlib.import_module(f"dptransfer.{package}")
            if not hasattr(module, first) and name not in NOT_MODULES:
                found.append(name)
    return found


def test_files_and_modules_named_exist():
    pages = [page for page in (*PAGES, *SOURCES) if page.name != "CHANGELOG.md"]
    assert on_pages(lambda page: absent_files(page.read_text()), pages) == {}


def test_a_file_that_moved_is_noticed():
    text = "`queries/votes.py` `queries.votes` `dptransfer.privacy.Budget` `queries/old.py` `queries.old`"
    assert absent_files(text) == ["queries/old.py", "queries.old"]


def test_every_command_shown_exists():
    def wrong(page):
        shown = shown_commands(page.read_text())
        return {command: why for command, whole in shown if (why := complaint(command, whole))}

    assert on_pages(wrong) == {}


def test_a_wrong_command_is_noticed():
    page = "```sh\ndptransfer fit rows.emb --out model/ --epsilon 1 # fine\ndptransfer fly\n```\n"
    page += "`dptransfer ledger x`"
    shown = shown_commands(page)
    assert [complete for _, complete in shown] == [True, True, False]
    assert complaint(*shown[0]) is None
    assert "no command 'fly'" in complaint(*shown[1])
    assert "no command 'x'" in complaint(*shown[2])
    assert "--epsilom" in complaint("dptransfer plan --epsilom 1", False)
    assert complaint("dptransfer encode photos/", True) is not None  # --out is missing
    assert complaint("dptransfer plan --epsilon one", True) is not None
    assert complaint("dptransfer plan --relation sideways", True) is not None


def test_make_targets_and_extras_shown_exist():
    text = "\n".join(page.read_text() for page in PAGES)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z]+(?:-[a-z]+)*)(?=`|\s{2,}#)", text)) <= targets
    extras = set(PROJECT["project"]["optional-dependencies"])
    named = {
        extra for group in re.findall(r"(?:dptransfer|\.)\[([a-z,]+)\]", text) for extra in group.split(",")
    }
    assert named
    assert named <= extras


def listed_extras(text: str) -> list[str]:
    """The extras that have a row in the table of them."""
    return re.findall(r"^\| `([a-z0-9]+)` \|", text.split("| Extra |")[1].split("\n\n")[0], re.MULTILINE)


def test_the_page_on_installing_lists_every_extra_once_and_no_other():
    page = INSTALL.read_text()
    extras = sorted(PROJECT["project"]["optional-dependencies"])
    assert sorted(listed_extras(page)) == extras
    assert sorted(listed_extras(page.replace("| `ray` |", "| `rays` |"))) != extras


def test_torch_has_one_version_for_developers_and_a_range_for_everybody():
    """A pin in an extra could not be installed beside another torch."""
    (pinned,) = re.findall(r"^torch==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    (asked,) = re.findall(r"^TORCH := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert pinned == asked
    assert f"tests run with {pinned}" in INSTALL.read_text()
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = {need for needs in extras.values() for need in needs if re.match(r"torch\b", need)}
    assert wanted == {"torch>=2.2"}


def test_the_layers_shown_are_the_contract():
    ((_, shown),) = blocks(ARCHITECTURE.read_text(), "layers")
    assert shown.split("\n")[:-1] == contract()
    assert len(contract()) > 5


def table_of_methods() -> str:
    """Every method in its own words, as their index shows them."""
    from dptransfer.methods import METHODS

    return "".join(
        f"| [`{name}`]({name}.md) | `{method.__name__}` | {method.about.summary} |\n"
        for name, method in METHODS.items()
    )


def test_the_index_shows_every_method_in_its_own_words_and_with_its_page():
    assert _METHODS.search(METHODS_INDEX.read_text())[0] == table_of_methods(), (
        "write it again with: python tests/test_docs.py"
    )


def wrong_defaults(text: str, method: type) -> list[str]:
    """Fields of a page's parameter tables whose plain default is not the method's."""
    wrong = []
    for name, shown in re.findall(r"^\| `(\w+)` \| ([^|`]+) \|", text, re.MULTILINE):
        try:
            default = ast.literal_eval(shown.strip())
        except (ValueError, SyntaxError):
            continue  # told in words
        if hasattr(method, name) and getattr(method, name) != default:
            wrong.append(name)
    return wrong


def test_the_defaults_shown_are_the_defaults():
    from dptransfer.methods import METHODS

    pages = {name: (ROOT / "docs" / "methods" / f"{name}.md").read_text() for name in METHODS}
    wrong = {name: wrong_defaults(pages[name], method) for name, method in METHODS.items()}
    assert {name: fields for name, fields in wrong.items() if fields} == {}


def test_a_wrong_default_is_noticed():
    from dptransfer.methods import LeastSquares

    table = "| `alpha` | 123.0 | weight |\n| `ridge` | as the noise is | words |\n| `name` | 'x' | text |\n"
    assert wrong_defaults(table, LeastSquares) == ["alpha", "name"]
    assert wrong_defaults(f"| `alpha` | {LeastSquares.alpha} | weight |\n", LeastSquares) == []


if __name__ == "__main__":
    METHODS_INDEX.write_text(_METHODS.sub(lambda _: table_of_methods(), METHODS_INDEX.read_text()))
