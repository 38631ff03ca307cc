"""Make every figure and every table that the README and the pages of docs/ show. Run by `make docs`.

    python docs/make_figures.py [NAME ...]     # all of them, or these tables

Tables go to docs/generated/NAME.md and between the marks `<!-- NAME -->` and `<!-- end NAME -->` of the pages, so that
no number in them is typed by hand. What makes them is in docs/tables/.
"""

import re
import sys

from tables import alpha_methods, bdf, formulations, lists, nonstiff, second_order
from tables.common import EXAMPLES, HERE, ROOT

from dalembert.analysis import alpha
from dalembert.papers import ascher_petzold_1993_figures, eich_1993, jay_negrut_2007, wunderlich_2005_figures

PAGES = [ROOT / "README.md", *sorted(HERE.glob("*.md"))]
TABLES = {
    name: make
    for module in (nonstiff, bdf, lists, formulations, second_order, alpha_methods)
    for name, make in module.TABLES.items()
}


def fill(page, name, text):
    """Put a table between its marks on a page (nothing happens where it has none)."""
    old = page.read_text(encoding="utf-8")
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
    new = pattern.sub(lambda m: f"{m[1]}{text}\n{m[2]}", old)
    if new != old:
        page.write_text(new, encoding="utf-8")


def draw():
    """All figures."""
    sys.path.insert(0, str(EXAMPLES))
    import demo

    demo.draw(demo.run(1e-5, None), demo.run(1e-5, "default"), 1e-5, HERE / "figures" / "pendulum_drift.png")
    eich_1993.figures(HERE / "figures")
    ascher_petzold_1993_figures.figures(HERE / "figures")
    wunderlich_2005_figures.figures(HERE / "figures")
    jay_negrut_2007.figures(HERE / "figures")
    alpha.plot().savefig(HERE / "figures" / "alpha_damping.png", dpi=120)


def main(names):
    unknown = sorted(set(names) - TABLES.keys())
    if unknown:
        sys.exit(f"no such tables: {', '.join(unknown)}; there are {', '.join(TABLES)}")
    (HERE / "generated").mkdir(exist_ok=True)
    if not names:
        draw()
    for name in names or TABLES:
        text = TABLES[name]()
        (HERE / "generated" / f"{name}.md").write_text(text + "\n", encoding="utf-8")
        for page in PAGES:
            fill(page, name, text)
        print(f"{name}.md")


if __name__ == "__main__":
    main(sys.argv[1:])
