"""The pages of the documentation, and the fenced blocks in them that a test runs.

A block is marked by the first line of its fence, of which viewers show only the first word:

    ```sh              runs to its end, and must end with 0; so does ```python
    ```sh exit=2       must end with 2
    ```sh server       is one command, which says that it is ready and runs until the page ends
    ```sh endless      is one command, which prints something and is then stopped
    ```sh root         needs root, a GPU, a network or minutes: its syntax and options are checked
    ```sh gpu
    ```sh network
    ```sh long
    ```text            right after a block: what the block prints. `...` stands for anything, a
                       number for any number, and white space for any white space

Blocks with another first word, or without one, are not run.
"""
import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGES = ["README.md", "ops/INSTALL.md", "examples/README.md", "client/python/README.md",
         *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
NOT_RUN = ("root", "gpu", "network", "long")
MARKS = ("server", "endless", *NOT_RUN)
BLOCK = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.M | re.S)


@dataclasses.dataclass
class Block:
    line: int
    language: str
    mark: str
    status: int
    text: str
    prints: str | None = None

    @property
    def runs(self):
        return self.language in ("sh", "python") and self.mark not in NOT_RUN


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def blocks_of(text):
    """The fenced blocks of a page; what a block prints belongs to the block."""
    found, before = [], 0
    for match in BLOCK.finditer(text):
        words = match[1].split()
        language = words[0] if words else ""
        follows = found and not text[before:match.start()].strip()
        before = match.end()
        if language == "text" and follows and found[-1].language in ("sh", "python"):
            found[-1].prints = match[2]
            continue
        marks = [word for word in words[1:] if not word.startswith("exit=")]
        status = next((int(word[5:]) for word in words[1:] if word.startswith("exit=")), 0)
        if language in ("sh", "python"):
            assert len(marks) <= 1 and not set(marks) - set(MARKS), match[0]
        found.append(Block(text.count("\n", 0, match.start()) + 1, language, " ".join(marks),
                           status, match[2]))
    return found


def prose_of(text):
    """A page without its fenced blocks."""
    return BLOCK.sub(lambda match: "\n" * match[0].count("\n"), text)


def looks_like(shown):
    """The pattern of what a page shows of a program's output."""
    parts = []
    for piece in re.split(r"(\s*\.\.\.\s*|\d[\d.,]*(?<![.,])|\s+)", shown.strip()):
        if piece.strip() == "...":
            parts.append(".*?")
        elif not piece.strip():
            parts.append(r"\s+" if piece else "")
        elif piece[0].isdigit():
            parts.append(r"\d[\d.,]*")
        else:
            parts.append(re.escape(piece))
    return re.compile("".join(parts), re.S)
