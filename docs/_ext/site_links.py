"""Links that leave the folder docs/: to the published source, or plain text while there is none."""

import os
import re
from pathlib import Path

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!#)(?![a-z]+:)([^)\s#]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"^(```+|:::+).*?^\1$", re.MULTILINE | re.DOTALL)

# Files of the repository that are pages of the site too.
PAGES = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CODE_OF_CONDUCT.md": "project/code-of-conduct.md",
}


def mended(text, page, docs, source_url):
    """The text of a page, with each link that leaves the folder led to where it can be followed."""
    root = docs.parent
    # A page that includes a file of the repository speaks from where that file lies.
    included = re.search(r"^```\{include\} (\S+)\n```$", text, re.MULTILINE)
    if included:
        page = (page.parent / included[1]).resolve()
        text = page.read_text()

    def lead(found):
        image, words, path, anchor = found[1], found[2], found[3], found[4] or ""
        target = (page.parent / path).resolve()
        if image:
            return found[0]
        if docs in target.parents and target.suffix == ".md":
            if included:
                return f"[{words}](/{target.relative_to(docs)}{anchor})"
            return found[0]
        name = os.path.relpath(target, root)
        if name in PAGES:
            return f"[{words}](/{PAGES[name]}{anchor})"
        if source_url:
            return f"[{words}]({source_url}/blob/main/{name}{anchor})"
        return words

    parts, at = [], 0
    for fence in _FENCE.finditer(text):  # links in examples stay as they are
        parts += [_LINK.sub(lead, text[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*parts, _LINK.sub(lead, text[at:])])


def setup(app):
    """Mend each page as it is read."""

    def read(app, name, source):
        docs = Path(app.srcdir).resolve()
        source[0] = mended(source[0], docs / f"{name}.md", docs, app.config.source_url)

    app.add_config_value("source_url", None, "env")
    app.connect("source-read", read)
    return {"parallel_read_safe": True}
