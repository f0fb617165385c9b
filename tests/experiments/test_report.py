"""The report reads well in a browser: no error, every picture there, nothing from anywhere else."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess

import numpy as np
import pytest
from experiment_cases import PAIRS, make_case, outcome, result_of

from nbo import _page
from nbo.experiments import _figures, _report, _results, _tables
from nbo.experiments._outputs import _saved
from nbo.experiments._results import CaseResult
from nbo.experiments.catalogue import EXPERIMENTS, FIGURES
from nbo.experiments.claims import Evidence, Fastest, Judgement, SmallestErrors, Verdict
from nbo.experiments.reproduction import CLAIMS, Reproduction

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--virtual-time-budget=10000",
    "--enable-logging=stderr", "--window-size=1200,900",
)  # fmt: skip

#: Counts pictures and those that show something, when all is loaded.
_PROBE = """<script>window.addEventListener("load", () => {
  const images = [...document.images].map((i) => i.complete && i.naturalWidth > 0);
  document.title = JSON.stringify({images, wide: document.documentElement.scrollWidth > window.innerWidth});
});</script></body>"""


@pytest.fixture(scope="module")
def browser():
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        assert "NBO_NEEDS_BROWSER" not in os.environ
        pytest.skip("no Chromium to open the report in")
    return found


def opened(browser, page, folder):
    """What a page shows in a browser: its pictures, whether it is too wide, and the lines of its console."""
    (folder / "page.html").write_text(page.replace("</body>", _PROBE))
    command = [browser, *FLAGS, f"--user-data-dir={folder / 'profile'}", "--dump-dom", f"file://{folder / 'page.html'}"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    title = re.search(r"<title>(\{.*\})</title>", run.stdout)
    assert title, run.stdout[:500] + run.stderr[-500:]
    console = [line for line in run.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(title[1]), console


@pytest.fixture
def found(tmp_path):
    """Results of one experiment, made from columns."""
    case = make_case(name="averaged")
    k = np.arange(12)
    runs = {
        label: [outcome(np.exp(-rate * k) + s * 1e-9) for s in range(3)]
        for label, rate in (("BAMM", 0.4), ("BAMM+NBO", 0.5))
    }
    claims = [(claim, Judgement(Verdict.PARTLY, "a | b < c & d")) for claim in CLAIMS if claim.experiment == "averaged"]
    return Reproduction(
        tmp_path, "quick", None, ("averaged",), {"mnist": "no <data>"}, {"averaged": result_of(case, runs, 3)}, {},
        tuple(claims),
    )  # fmt: skip


def pages(found):
    drawn = {layout: figure for layout in FIGURES if (figure := _figures.draw(layout, found)) is not None}
    text = _report.markdown(found, list(drawn), {"machine": "a | b"})
    return text, _page.html(
        _report.TITLE, text, {f"figures/{d.name}.png": _saved(f.figure, "png") for d, f in drawn.items()}
    )


def test_a_browser_shows_the_report_without_errors(browser, found, tmp_path):
    seen, console = opened(browser, pages(found)[1], tmp_path)
    assert seen == {"images": [True], "wide": False}
    assert console == []


def test_the_browser_would_tell_of_a_missing_picture_and_of_an_error(browser, tmp_path):
    page = '<html><body><img src="nowhere.png"><script>nothing()</script></body></html>'
    seen, console = opened(browser, page, tmp_path)
    assert seen["images"] == [False] and any("nothing is not defined" in line for line in console)


def test_runs_that_stop_at_once_are_reported(tmp_path):
    failed, fine = outcome([1.0], status="diverged"), outcome([1.0, 0.3, 0.01])
    for runs in (
        {"BAMM": [failed] * 2, "BAMM+NBO": [fine, failed]},
        dict.fromkeys(("BAMM", "BAMM+NBO"), (failed, failed)),
    ):
        result = result_of(make_case(name="averaged"), runs, 2)
        evidence = Evidence({"averaged": result}, {})
        verdicts = tuple((claim, claim.judge(evidence)) for claim in CLAIMS if claim.experiment == "averaged")
        found = Reproduction(tmp_path, "full", 2, ("averaged",), {}, {"averaged": result}, {}, verdicts)
        text = pages(found)[0]
        assert "BAMM diverged in 2 of 2" in text and "| 2 of 2 |" in text
        assert all(table.csv() for table in _tables.tables(found).values())


def test_a_case_in_which_every_pair_of_steps_diverged_is_reported(tmp_path):
    case = make_case(PAIRS, name="averaged")
    tasks = [task for entry in case.entries for task in _results.search(case, entry, "full")]
    result = CaseResult(case, "full", 2, {task.key: outcome([1.0, 2.0], status="diverged") for task in tasks})
    evidence = Evidence({"averaged": result}, {})
    rules = [Fastest("averaged", "BAMM"), SmallestErrors("averaged", ("BAMM",))]
    assert [rule.judge(evidence).verdict for rule in rules] == [Verdict.NOT] * 2
    verdicts = tuple((claim, claim.judge(evidence)) for claim in CLAIMS if claim.experiment == "averaged")
    text = pages(Reproduction(tmp_path, "full", 2, ("averaged",), {}, {"averaged": result}, {}, verdicts))[0]
    assert "| BAMM | none | none | none | 2 | 2 |" in text and "neither arrived" in text


def test_the_page_needs_no_other_file(found):
    page = pages(found)[1]
    assert not re.search(r'(src|href)="(?!data:)', page)
    assert page.count("<img") == page.count("data:image/png;base64,") == 1


def test_the_report_says_what_was_claimed_measured_and_left_out(found):
    text, page = pages(found)
    claim = found.verdicts[0][0]
    plain = re.sub(r"\\(?=[*_|`])", "", html.unescape(text))
    for words in (claim.text, claim.rule.text, "a | b < c & d", "2 partly", "no <data>", "quick version"):
        assert words in plain, words
    assert "**partly**" in text
    assert "no &lt;data&gt;" in page and "a | b &lt; c &amp; d" in page
    assert "(quick version, reduced data)" in text


def test_every_cell_of_a_table_stays_in_its_column(found):
    for table in _tables.tables(found).values():
        assert all(len(row) == len(table.header) for row in table.rows)
        lines = _page.in_markdown(table.header, table.rows)
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in lines if line}
        assert counts == {len(table.header) + 1}


def test_figures_say_that_they_are_quick_versions(found):
    layout = next(layout for layout in FIGURES if layout.name == "figure-5")
    drawn = _figures.draw(layout, found)
    assert "quick version" in drawn.figure.get_suptitle()
    full = _figures.draw(layout, found._replace(scale="full"))
    assert full.figure.get_suptitle() == ""
    assert [ax.get_xlabel() for ax in full.figure.axes] == ["iteration", "solver time in seconds"]
    for ax in full.figure.axes:
        assert [text.get_text() for text in ax.get_legend().get_texts()] == ["BAMM", "BAMM+NBO"]


def test_the_numbers_behind_a_figure_are_those_drawn(found):
    layout = next(layout for layout in FIGURES if layout.name == "figure-5")
    drawn = _figures.draw(layout, found)
    line = drawn.figure.axes[0].get_lines()[0]
    rows = [row for row in drawn.rows if row[0] == "averaged by iteration" and row[1] == "BAMM"]
    np.testing.assert_allclose(line.get_xydata(), np.array([row[2:4] for row in rows], dtype=float))


def test_figures_of_experiments_without_results_are_left_out(found):
    for layout in FIGURES:
        assert (_figures.draw(layout, found) is None) == (layout.name != "figure-5")


def test_experiments_have_titles():
    assert all(experiment.title for experiment in EXPERIMENTS.values())
