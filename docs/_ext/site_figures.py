"""Pictures that are made when the site is built, from the library itself: `{picture} NAME`.

`layers` is drawn from the import contract in pyproject.toml, `row` from the stages of a fit, `prototypes` and
the samples of a card, an audit and a checkup from real fits on the demo's handwritten digits. Drawings are
inline SVG and take the colours of the page.
"""

import re
import tempfile
import tomllib
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

_ROOT = Path(__file__).parents[2]
GENERATED = "generated"

# What each package is about, for the drawing of the layers.
_ABOUT = {
    "dptransfer_lab": "studies, reports, demo",
    "cli": "commands",
    "app": "a fit in the browser",
    "audit": "attacks, bounds",
    "serve": "answers over HTTP",
    "page": "a release in a browser",
    "testing": "checks for plug-ins",
    "sklearn": "estimators",
    "api": "fit, plan, check",
    "extensions": "names for plug-ins",
    "parallel": "workers, clusters",
    "federation": "several owners",
    "methods": "plan, prepare, charge, run",
    "release": "model, card, verify",
    "mechanisms": "query + noise",
    "ledger": "charges, budgets",
    "encoders": "pictures and texts to rows",
    "queries": "exact answers, sensitivity",
    "sources": "files of all kinds",
    "features": "public feature maps",
    "exact": "integer arithmetic",
    "accounting": "events to ε",
    "noise": "exact samplers",
    "data": "rows, labels, people",
    "privacy": "budgets, events, guarantees",
    "base": "checks, workers",
    "errors": "errors",
}

_STAGES = [
    ("picture", "private, one person's", False),
    ("frozen encoder", "a row of 1,280 numbers", False),
    ("clip and round", "integers of bounded norm", False),
    ("sum over all rows", "exact, in any order", False),
    ("add noise", "one draw, after the charge", True),
    ("model and card", "may be published", True),
]


def layers():
    """The packages, top importing down, as the contract says."""
    contracts = tomllib.loads((_ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    rows = [re.split(r"\s*[:|]\s*", row) for row in contracts[0]["layers"]]
    width, height, gap = 760, 46, 8
    parts = []
    for place, row in enumerate(rows):
        each = (width - gap * (len(row) - 1)) / len(row)
        for column, package in enumerate(row):
            name = package.strip("()").removeprefix("dptransfer.")
            x, y = column * (each + gap), place * (height + gap)
            parts.append(_box(x, y, each, height, name, _ABOUT.get(name, "")))
    return _svg(width, len(rows) * (height + gap) - gap, parts, "Packages; each imports only from below")


def row():
    """What happens to one private row."""
    width, height, gap = 760, 58, 34
    parts, each = [], (width - 2 * gap) / 3
    for place, (name, about, is_public) in enumerate(_STAGES):
        line, column = divmod(place, 3)
        x, y = column * (each + gap), line * (height + 44)
        parts.append(_box(x, y, each, height, name, about, is_public=is_public))
        if column < 2:
            parts.append(_arrow(x + each + 4, y + height / 2, x + each + gap - 4, y + height / 2))
    middle = height + 22
    parts.append(
        f'<path d="M {width - each / 2} {height + 2} V {middle} H {each / 2} V {height + 38}" class="arrow"'
        ' marker-end="url(#tip)"/>'
    )
    return _svg(width, 2 * height + 44, parts, "From a private picture to a published model")


def _box(x, y, width, height, name, about, *, is_public=False):
    kind = "box public" if is_public else "box"
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" rx="5" class="{kind}"/>'
        f'<text x="{x + width / 2:.1f}" y="{y + height / 2 - 4:.1f}" class="name">{escape(name)}</text>'
        f'<text x="{x + width / 2:.1f}" y="{y + height / 2 + 13:.1f}" class="about">{escape(about)}</text>'
    )


def _arrow(x, y, to, there):
    return f'<path d="M {x:.1f} {y:.1f} L {to:.1f} {there:.1f}" class="arrow" marker-end="url(#tip)"/>'


def _svg(width, height, parts, title):
    tip = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
        ' orient="auto"><path d="M0 0 L8 4 L0 8 z" class="tip"/></marker></defs>'
    )
    box = f'viewBox="-1 -1 {width + 2} {height + 2}" role="img" aria-label="{escape(title)}"'
    return f'<svg class="drawing" {box}>{tip}{"".join(parts)}</svg>'


DRAWINGS = {"layers": layers, "row": row}
SAMPLES = {
    "card": "Sample of a privacy card",
    "checkup": "Sample of a checkup's report",
    "audit": "Sample of an audit",
}
FITTED = {
    "prototypes": "For each digit: the drawn character that a private vote chose, above a test picture of it"
}


class Picture(SphinxDirective):
    """One of the pictures by name, with its caption as content."""

    required_arguments = 1
    has_content = True

    def run(self):
        """A figure."""
        name = self.arguments[0]
        if name in DRAWINGS:
            picture = nodes.raw("", DRAWINGS[name](), format="html")
        elif name in SAMPLES:
            to_root = "../" * self.env.docname.count("/")
            where = f'src="{to_root}_static/sample-{name}.html" title="{SAMPLES[name]}"'
            picture = nodes.raw("", f'<iframe class="sample" loading="lazy" {where}></iframe>', format="html")
        else:
            picture = nodes.image(uri=f"/{GENERATED}/{name}.png", alt=FITTED[name], candidates={})
        figure = nodes.figure("", picture)
        if self.content:
            caption = nodes.caption()
            inline = nodes.Element()
            self.state.nested_parse(self.content, self.content_offset, inline)
            caption += inline[0].children
            figure += caption
        return [figure]


def make_fitted(folder):
    """Fit two models on the demo's digits: draw the prototypes of one, keep the card of the other."""
    import warnings

    import numpy as np

    import dptransfer as dpt
    from dptransfer.audit import audit_release
    from dptransfer.audit.audit_page import audit_document
    from dptransfer_lab.demo.digits import digit_pictures, draw_glyphs
    from dptransfer_lab.demo.pictures import draw_prototypes

    folder.mkdir(parents=True, exist_ok=True)
    pixels, labels = digit_pictures()
    glyphs = draw_glyphs(600, rng=np.random.default_rng(7)).pixels
    names = [str(digit) for digit in range(10)]
    private = dpt.PrivateEmbeddings(_rows(pixels), labels, classes=names, name="digits")
    public = dpt.PublicEmbeddings(_rows(glyphs), name="characters drawn from fonts")
    budget = dpt.Budget(epsilon=4.0, delta=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = dpt.methods.PublicPrototypes(features=dpt.features.PublicMap()).fit(
            private, public, budget=budget, ledger=dpt.Ledger.in_memory()
        )
        carded = dpt.methods.PublicPriorPrototypes().fit(
            private,
            public,
            budget=dpt.Budget(epsilon=2.0, delta=1e-5),
            ledger=dpt.Ledger.in_memory(),
            holdout=0.2,
        )
    places = {name: rows[0] for name, rows in chosen.provenance.prototypes["rows"].items()}
    draw_prototypes(
        folder / "prototypes.png",
        {name: glyphs[place] for name, place in places.items()},
        {name: pixels[np.flatnonzero(labels == digit)[0]] for digit, name in enumerate(names)},
        ("chosen", "a digit"),
        "",
    )
    with tempfile.TemporaryDirectory() as there:
        carded.save(Path(there) / "model", title="Handwritten digits", contact="privacy@hospital.example")
        (folder / "sample-card.html").write_text((Path(there) / "model" / "card.html").read_text())
        audited = audit_release(Path(there) / "model", quick=True)
        (folder / "sample-audit.html").write_text(audit_document(audited).html())
    (folder / "sample-checkup.html").write_text(_checkup(pixels, labels, names, public).document().html())


def _checkup(pixels, labels, names, public):
    """A checkup of digits among which some things are wrong."""
    import dptransfer as dpt

    rows, marks = _rows(pixels), labels.copy()
    rows[3] = float("nan")  # a damaged row
    rows[7], marks[7] = rows[5], (labels[5] + 1) % 10  # one picture under two labels
    wrong = dpt.PrivateEmbeddings(rows, marks, classes=names, name="digits, with mistakes")
    return dpt.check(wrong, public, epsilons=[1.0, 4.0])


def _rows(pixels):
    return (pixels.reshape(len(pixels), -1) / 255).astype("float32")


def _make(app):
    folder = Path(app.srcdir) / GENERATED
    if not (folder / "sample-checkup.html").is_file():  # `make docs` starts from an empty folder
        make_fitted(folder)


def setup(app):
    """Register the directive; make what is fitted before pages are read."""
    app.add_directive("picture", Picture)
    app.connect("builder-inited", _make)
    return {"parallel_read_safe": True}
