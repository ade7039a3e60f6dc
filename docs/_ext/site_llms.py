"""`llms.txt` beside the pages: what the site holds, for programs that read documentation."""

from pathlib import Path

HEAD = """# dptransfer

> Train a classifier on sensitive labelled data and a public encoder, and release it with a
> differential-privacy guarantee. Python library and command line.

"""


def write_index(app, problem):
    """List every page with its title."""
    if problem is None and app.builder.format == "html":
        titles = app.env.titles
        lines = [f"- [{titles[name].astext()}]({name}.html)" for name in sorted(titles)]
        (Path(app.outdir) / "llms.txt").write_text(HEAD + "\n".join(lines) + "\n")


def setup(app):
    """Write the index when all pages are there."""
    app.connect("build-finished", write_index)
    return {"parallel_read_safe": True}
