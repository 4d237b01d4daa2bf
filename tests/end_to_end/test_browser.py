"""The page of an audit in a real browser: chromium, driven by playwright; skipped where one of them is missing."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from netgrain.auditing.pages import comparison, page
from netgrain.auditing.verdicts import verdict
from tests.auditing.audit_example import BREAKING, HOSTILE, est, example, several, tabular, unmeasured
from tests.auditing.sections.test_checkpoint_words import GOOD, part
from tests.auditing.test_pages import blank

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make test-browser")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed: make test-browser"),
]
FLAGS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--disable-sync",
]
PHONE = {"width": 360, "height": 740}
REPORTS: dict[str, Callable[[], str]] = {
    "audit": lambda: page(example()),
    "tabular": lambda: page(tabular()),
    "unmeasured": lambda: page(unmeasured()),
    "numbers-null": lambda: page(blank(example(), (int, float))),
    "bars-null": lambda: page(blank(tabular(), (int, float))),
    "comparison": lambda: comparison(several()),
    "scales": lambda: page(example() | {"scales": scales()}),
    "learnt": lambda: page(learnt()),
    "checkpoint": lambda: page(checkpoint()),
}
every_report = pytest.mark.parametrize("name", REPORTS)


def scales() -> dict[str, Any]:
    """Three sizes of pattern; the finest is where little reacts."""
    names = ("8 pixels and coarser", "4–8 pixels", "2–4 pixels")
    rows = zip(names, (0.05, 0.2, 0.75), (6.0, 2.0, 0.05), strict=True)
    return {
        "kind": "image",
        "unit": "pixels",
        "bands": [
            {"name": n, "dimensions": d, "gain": est(g), "variance": est(0.3), "labels": est(0.33)} for n, d, g in rows
        ],
        "weak": {"bands": [names[2]], "finer_than": 4, "labels": est(0.3), "variance": est(0.3), "labels_found": True},
    }


def learnt() -> dict[str, Any]:
    """A label that needs learnt features: a short training is far above random features."""
    whole = example() | {"scales": scales(), "alerts": []}
    tried = {"trial": {"score": est(0.9), "gain": est(0.4), "trained_on": 700}, "combined": est(0.92), "warning": "w"}
    whole["expected"] = whole["expected"] | {"score": est(0.5)} | tried
    return whole | {"verdict": verdict(whole)}


def checkpoint() -> dict[str, Any]:
    """Trained weights that were judged on new samples."""
    whole = example() | {"scales": scales(), "alerts": []}
    names = [band["name"] for band in whole["scales"]["bands"]]
    parts = [
        part(n, t, f, d) for n, t, f, d in zip(names, (0.1, 0.2, 0.7), (0.3, 0.3, 0.4), (0.6, 0.2, 0.2), strict=True)
    ]
    image = whole["samples"]["classes"][0]["best"][0]["picture"]
    seen = [
        {"index": i, "kind": "class", "true": str(i), "said": "0", "picture": image, "overlay": image} for i in range(5)
    ]
    expected = whole["expected"]["score"] | {
        "of": "fresh networks",
        "samples": whole["expected"]["settings"]["samples"],
    }
    whole["checkpoint"] = GOOD | {
        "test": est(0.8),
        "tested": 360,
        "parts": parts,
        "pictures": seen,
        "expected": expected,
    }
    lost = {"name": "stages.0.0.conv1", "type": "Conv2d", "factor": est(0.25)}
    whole["layers"] = whole["layers"] | {"trained_loses": lost}
    return whole | {"verdict": verdict(whole)}


@dataclass
class Visit:
    """An open page and everything it did that it should not do."""

    page: Any
    wrong: list[str] = field(default_factory=list)

    def count(self, selector: str) -> int:
        return int(self.page.locator(selector).count())

    def value(self, script: str) -> Any:
        return self.page.evaluate(script)

    def text(self, selector: str) -> str:
        return str(self.page.locator(selector).first.inner_text())

    def until(self, condition: str) -> None:
        """Wait up to two seconds (playwright's own waiting needs eval, which the page's policy forbids)."""
        for _ in range(100):
            if self.value(condition):
                return
            self.page.wait_for_timeout(20)
        raise AssertionError(condition)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as p:
        one = p.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield one
        one.close()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("pages")
    for name, make in REPORTS.items():
        (where / f"{name}.html").write_text(make(), encoding="utf-8")
    return where


@pytest.fixture
def visit(browser: Any, folder: Path) -> Iterator[Callable[..., Visit]]:
    """Open a report from file://; any request, console message, error or dialog fails the test at its end."""
    opened: list[tuple[Any, Visit]] = []

    def go(name: str = "audit", tab: str = "", **options: Any) -> Visit:
        context = browser.new_context(**({"viewport": {"width": 1100, "height": 800}} | options))
        context.set_default_timeout(60_000)  # of a machine that is busy
        here = Visit(context.new_page())
        opened.append((context, here))
        address = (folder / f"{name}.html").as_uri()

        def route(request: Any) -> None:
            if request.request.url.split("#")[0] == address:
                request.continue_()
            else:
                here.wrong.append(f"request {request.request.url[:80]}")
                request.abort()

        def dialog(d: Any) -> None:
            here.wrong.append(f"dialog {d.message}")
            d.dismiss()

        here.page.route(lambda url: not url.startswith("data:"), route)
        here.page.on("console", lambda m: here.wrong.append(f"console {m.text}"))
        here.page.on("pageerror", lambda e: here.wrong.append(f"error {e}"))
        here.page.on("dialog", dialog)
        here.page.goto(address + (f"#/{tab}" if tab else ""))
        return here

    yield go
    found = [wrong for _, here in opened for wrong in here.wrong]
    for context, _ in opened:
        context.close()
    assert found == []


@every_report
def test_quiet_and_narrow(visit: Callable[..., Visit], name: str) -> None:
    """Every tab on a phone: no request, no console message (the fixture looks), nothing wider than the screen."""
    here = visit(name, viewport=PHONE, has_touch=True)
    for i in range(here.count('[role="tab"]')):
        here.page.locator('[role="tab"]').nth(i).click()
        assert here.value("document.documentElement.scrollWidth") <= PHONE["width"]
        assert here.count('[role="tabpanel"]:visible') == 1


def test_wrong_things_are_noticed(visit: Callable[..., Visit], folder: Path) -> None:
    """The recorder itself: a page that asks, logs, throws and alerts."""
    (folder / "loud.html").write_text(
        "<img src='https://example.org/a.png'>"
        "<script>console.log(1); setTimeout(() => alert(2)); throw Error('three')</script>"
    )
    here = visit("loud")
    here.page.wait_for_timeout(100)
    kinds = {wrong.split()[0] for wrong in here.wrong}
    assert kinds == {"request", "console", "error", "dialog"}
    here.wrong.clear()


def test_policy_stops_what_was_not_written_here(visit: Callable[..., Visit]) -> None:
    here = visit()
    here.value("""() => {
        const s = document.createElement("script"); s.textContent = "window.ran = true"; document.body.append(s);
        const i = new Image(); i.src = "https://example.org/a.png"; document.body.append(i);
    }""")
    here.page.wait_for_timeout(50)
    assert here.value("window.ran") is None
    assert here.wrong
    assert all("Content Security Policy" in wrong for wrong in here.wrong)
    here.wrong.clear()


def test_tabs_by_click_and_by_keys(visit: Callable[..., Visit]) -> None:
    here = visit()

    def shown() -> str:
        assert here.count('[role="tabpanel"]:visible') == 1
        assert here.count('[aria-selected="true"]') == 1
        return str(here.value("document.querySelector('[role=tabpanel]:not([hidden])').id"))

    assert shown() == "expected"
    here.page.get_by_role("tab", name="Labels").click()
    assert shown() == "labels"
    here.page.keyboard.press("ArrowRight")
    assert shown() == "samples"
    assert here.value("document.activeElement.id") == "tab-samples"
    here.page.keyboard.press("End")
    assert shown() == "numbers"
    here.page.keyboard.press("ArrowRight")
    assert shown() == "expected"
    here.page.keyboard.press("ArrowLeft")
    assert shown() == "numbers"
    assert here.value("location.hash") == "#/numbers"
    assert visit(tab="features").text("[aria-selected=true]") == "Features"


def test_slider_by_keyboard(visit: Callable[..., Visit]) -> None:
    here = visit(tab="directions")
    report = example()["directions"]

    def state() -> tuple[Any, ...]:
        pictures = [here.page.locator(f"[data-kind={k}] img").get_attribute("src") for k in ("picture", "fourier")]
        fields = ("eigenvalue", "data_variance", "label_relevance")
        return (*pictures, *[here.text(f"[data-field={key}]") for key in fields], here.text("output"))

    first = state()
    assert first[:2] == (report[0]["picture"], report[0]["fourier"])
    assert first[2:] == ("29.8", "3.00", "0.600", "1 of 64 · strongest")
    here.page.locator("#slider").focus()
    here.page.keyboard.press("ArrowRight")
    second = state()
    assert all(a != b for a, b in zip(first, second, strict=True))
    assert second[0] == report[1]["picture"]
    assert "Ranks 2 to 3 share one eigenvalue" in here.text(".face")
    here.page.keyboard.press("End")
    assert state()[0] == report[-1]["picture"]
    assert state()[-1] == "64 of 64 · weakest"
    assert "rank 64 of 64" in str(here.page.locator("#slider").get_attribute("aria-valuetext"))
    here.page.get_by_role("button", name="Previous direction").click()
    assert state()[0] == report[-2]["picture"]
    here.page.get_by_role("button", name="Middle", exact=True).click()
    assert state()[0] == report[16]["picture"]
    here.page.get_by_role("button", name="Direction 3", exact=True).click()
    assert state()[0] == report[2]["picture"]
    assert here.value("document.querySelector('[data-kind=picture] img').naturalWidth") == 8


def test_bars_for_inputs_without_pictures(visit: Callable[..., Visit]) -> None:
    here = visit("tabular", tab="directions")
    widths = "[...document.querySelectorAll('.face .bar')].map((b) => b.getAttribute('width'))"
    before = here.value(widths)
    assert len(before) == 8
    names = here.page.locator(".face .name").all_text_contents()
    assert names[:4] == ["age", "income", HOSTILE, BREAKING]
    here.page.locator("#slider").focus()
    here.page.keyboard.press("ArrowRight")
    assert here.value(widths) != before


def test_tooltip_by_pointer_keyboard_and_touch(visit: Callable[..., Visit]) -> None:
    here = visit(tab="overview")
    plot, tip = here.page.locator("[data-plot=spectrum] svg"), here.page.locator("#tip")
    assert tip.is_hidden()
    box = plot.bounding_box()
    plot.scroll_into_view_if_needed()
    plot.hover(position={"x": 51, "y": box["height"] / 2})
    assert here.text("#tip").split("\n")[:3] == ["Rank 1", "this network", "29.8"]
    here.page.mouse.move(2, 2)
    assert tip.is_hidden()
    here.page.locator("figure:has(> [data-plot=spectrum]) .csv").focus()
    here.page.keyboard.press("Tab")
    assert "Rank 1\n" in here.text("#tip")
    here.page.keyboard.press("ArrowRight")
    assert "Rank 2\n" in here.text("#tip")
    here.page.keyboard.press("Escape")
    assert tip.is_hidden()
    phone = visit(tab="overview", viewport=PHONE, has_touch=True, is_mobile=True)
    phone.page.locator("[data-plot=spectrum] svg").tap(position={"x": 250, "y": 100})
    assert "Rank" in phone.text("#tip")
    edges = phone.page.locator("#tip").bounding_box()
    assert edges["x"] >= 0
    assert edges["x"] + edges["width"] <= PHONE["width"]


@pytest.mark.parametrize("tab", ["labels", "samples", "features", "layers"])
def test_every_plot_tells_its_values(visit: Callable[..., Visit], tab: str) -> None:
    here = visit("tabular", tab=tab)
    plots = here.page.locator(f"#{tab} .plot svg")
    assert plots.count() >= 1
    for i in range(plots.count()):
        plots.nth(i).hover()
        assert any(c.isdigit() for c in here.text("#tip"))


def test_class_can_be_compared_in_the_histogram(visit: Callable[..., Visit]) -> None:
    here = visit(tab="samples")
    assert here.count("[data-plot=scores] .bar") == 20
    here.page.locator("#class").select_option(label=HOSTILE)
    assert here.count("[data-plot=scores] .bar") == 40
    assert HOSTILE in here.text("[data-plot=scores] .legend")


def test_names_are_shown_not_run(visit: Callable[..., Visit]) -> None:
    here = visit(tab="samples")
    headings = here.page.locator("#samples h3").all_inner_texts()
    assert HOSTILE in headings
    assert BREAKING in headings
    assert here.count("[onmouseover], [onerror]") == 0
    assert here.count("script") == 2
    assert here.count("img[src='x']") == 0


def luminance(colour: str) -> float:
    parts = [float(v) / 255 for v in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    """WCAG 2: from 1 (equal) to 21 (black on white)."""
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_by_hand() -> None:
    assert contrast("rgb(0, 0, 0)", "rgb(255, 255, 255)") == pytest.approx(21)
    assert contrast("rgb(119, 119, 119)", "rgb(255, 255, 255)") == pytest.approx(4.48, abs=0.01)


def test_light_and_dark(visit: Callable[..., Visit]) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    pairs = """[...document.querySelectorAll('body *')].filter((e) => e.checkVisibility() && e.matches(
        '.finding, .mark, .small, .pm, .none, summary, dt, dd, th, td, h1, h3, [role=tab], button, figcaption, .legend'
    )).map((e) => {
        let b = e;
        while (getComputedStyle(b).backgroundColor === 'rgba(0, 0, 0, 0)') b = b.parentElement || document.body;
        return [e.className + e.tagName, getComputedStyle(e).color, getComputedStyle(b).backgroundColor];
    }).filter((p) => p[2].startsWith('rgb('))"""
    seen = {}
    for scheme in ("light", "dark"):
        here = visit(color_scheme=scheme, reduced_motion="reduce")
        seen[scheme] = here.value(paper)
        found = here.value(pairs)
        assert len(found) > 30
        assert [p for p in found if contrast(p[1], p[2]) < 4.5] == []
        here.page.locator("#theme").click()
        seen[scheme + " toggled"] = here.value(paper)
        assert [p for p in here.value(pairs) if contrast(p[1], p[2]) < 4.5] == []
    assert seen["light"] == seen["dark toggled"]
    assert seen["dark"] == seen["light toggled"]
    assert luminance(seen["light"]) > 0.8
    assert luminance(seen["dark"]) < 0.05


def test_downloads(visit: Callable[..., Visit]) -> None:
    here = visit(tab="samples")
    with here.page.expect_download() as waiting:
        here.page.get_by_role("button", name="Download the index list").click()
    assert waiting.value.suggested_filename == "kept.csv"
    lines = Path(waiting.value.path()).read_text().splitlines()
    assert lines == ["index", *map(str, example()["samples"]["kept"])]
    here.page.get_by_role("tab", name="Numbers").click()
    with here.page.expect_download() as waiting:
        here.page.get_by_role("button", name="Download everything").click()
    assert json.loads(Path(waiting.value.path()).read_text()) == example()


def test_print_shows_everything(visit: Callable[..., Visit]) -> None:
    here = visit(color_scheme="dark")
    here.page.locator("#theme").click()
    here.page.locator("#theme").click()  # dark by choice, still light on paper
    here.page.emulate_media(media="print")
    assert here.count('[role="tabpanel"]:visible') == 9
    assert here.count("button:not(.sort):visible") == here.count(".strip button:visible")
    here.until("document.querySelector('#overview details').open")
    here.value("document.querySelectorAll('[role=tabpanel]').forEach((p) => { p.hidden = true; })")
    assert here.count('[role="tabpanel"]:visible') == 9  # also where the browser does not announce that it prints
    assert luminance(here.value("getComputedStyle(document.querySelector('.card')).backgroundColor")) > 0.8
    here.page.emulate_media(media="screen")
    here.until("document.querySelectorAll('[role=tabpanel]:not([hidden])').length === 1")
    assert not here.page.locator("#overview details p").first.is_visible()


def test_without_script_everything_is_there(visit: Callable[..., Visit]) -> None:
    here = visit(java_script_enabled=False)
    assert here.count('[role="tabpanel"]:visible') == 9


def test_definitions_are_one_click_away(visit: Callable[..., Visit]) -> None:
    here = visit(tab="numbers")
    more = here.page.locator("#numbers details").first
    assert not more.locator("p").is_visible()
    more.locator("summary").click()
    assert more.locator("p").inner_text() == example()["sentences"][0]["more"]


def test_comparison_side_by_side(visit: Callable[..., Visit]) -> None:
    here = visit("comparison")
    assert here.count("[data-plot=spectra] .curve") == 2
    assert HOSTILE in here.text(".sides thead")
    row = "document.querySelector('.sides tbody tr').querySelectorAll('td')"
    cells = f"[...{row}].map((c) => Math.round(c.getBoundingClientRect().top))"
    assert len(set(here.value(cells))) == 1
    here.page.set_viewport_size(PHONE)
    assert len(set(here.value(cells))) == 3
    here.page.get_by_role("tab", name="Directions").click()
    assert here.count(".face") == 3
    before = here.page.locator(".face img").evaluate_all("images => images.map((i) => i.src)")
    here.page.locator("#slider").focus()
    here.page.keyboard.press("ArrowRight")
    after = here.page.locator(".face img").evaluate_all("images => images.map((i) => i.src)")
    assert len(before) == len(after) == 4
    assert all(a != b for a, b in zip(before, after, strict=True))


# --- ten seconds ------------------------------------------------------------------------------------------------------

SCREENS = {"desk": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
# what a person who knows PyTorch and not netgrain does not know, unless the page explains it on the spot
UNEXPLAINED = (
    r"\b(eigen\w*|geometry|Jacobian|closed form|effective rank|trace|probe|kernel|grain\b(?!\.)|leading|NTK)\b"
)


FIRST = [
    ("scales", "Expect about 83 ± 3 %"),
    ("learnt", "Expect between 50 and 93 % accuracy"),
    ("checkpoint", "This checkpoint reaches 80 ± 1 % on 360 samples that it has not seen; expected is 83 ± 3 %"),
]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize(("name", "says"), FIRST)
def test_ten_seconds(visit: Callable[..., Visit], name: str, says: str, screen: str, scheme: str) -> None:
    """The first screen holds the verdict, the picture and one action, whole, and no word that it does not explain."""
    here = visit(name, viewport=SCREENS[screen], color_scheme=scheme)
    plots = ["[data-plot=curve] svg", "[data-plot=bands] svg"]
    if name == "checkpoint":  # a phone has no room for the learning curve, too
        plots = [*(plots if screen == "desk" else plots[1:]), "#story"]
    height, width = SCREENS[screen]["height"], SCREENS[screen]["width"]
    box = (
        "(s) => { const b = document.querySelector(s).getBoundingClientRect(); "
        "return [b.left, b.top, b.right, b.bottom]; }"
    )
    for place in (".verdict .sentence", ".verdict .action", *plots):
        left, top, right, bottom = here.value(f"({box})('{place}')")
        assert 0 <= left < right <= width, place
        assert 0 <= top < bottom <= height, place
    assert here.count(".verdict .action") == 1
    parts = "h1, .facts, .verdict p, #story *, #picture h3, #picture text, #picture .legend, #picture figcaption"
    above = f"(e) => e.getBoundingClientRect().top < {height}"
    seen = here.value(f"[...document.querySelectorAll('{parts}')].filter({above}).map((e) => e.textContent).join(' ')")
    caption = " ".join(str(here.page.locator("#picture > figcaption").text_content()).split())
    assert "± are one standard error: two results in three are closer than that" in caption
    assert says in seen
    assert here.count("#story dt") == (6 if name == "checkpoint" else 0)
    assert re.findall(UNEXPLAINED, seen) == []
    assert here.value("document.documentElement.scrollWidth") <= width


def test_every_tab_is_in_sight_on_a_phone(visit: Callable[..., Visit]) -> None:
    here = visit(viewport=PHONE, has_touch=True)
    edges = here.value(
        "[...document.querySelectorAll('[role=tab]')].map((t) => t.getBoundingClientRect())"
        ".map((b) => [b.left, b.right])"
    )
    assert all(0 <= left < right <= PHONE["width"] for left, right in edges)


def test_an_alert_leads_to_its_tab(visit: Callable[..., Visit]) -> None:
    here = visit(tab="numbers")
    here.page.locator(".alerts [data-tab]").first.click()
    assert here.text("[aria-selected=true]") == "Accuracy"


@pytest.mark.parametrize("name", ["curve", "bands"])
def test_plots_give_their_numbers_as_csv(visit: Callable[..., Visit], name: str) -> None:
    here = visit("scales")
    with here.page.expect_download() as waiting:
        here.page.locator(f"div:has(> [data-plot={name}]) .csv").click()
    assert waiting.value.suggested_filename == f"{name}.csv"
    head, *lines = Path(waiting.value.path()).read_text().splitlines()
    assert head.startswith({"curve": "samples (log),accuracy,accuracy: standard error", "bands": "name,"}[name])
    assert len(lines) == {"curve": 5, "bands": 3}[name]
    assert lines[-1].split(",")[0] == {"curve": "2874", "bands": "2–4"}[name]


def test_every_plot_has_its_csv(visit: Callable[..., Visit]) -> None:
    here = visit("scales")
    assert here.count(".csv") == here.count("[data-plot]")


def test_tables_sort_and_filter(visit: Callable[..., Visit]) -> None:
    here = visit(tab="directions")
    here.page.locator("#directions summary", has_text="All directions").click()
    column = (
        "[...document.querySelectorAll('#directions tbody tr:not([hidden]) > :first-child')].map((c) => c.textContent)"
    )
    table = here.page.locator("#directions table")
    table.get_by_role("button", name="Rank").click()
    table.get_by_role("button", name="Rank").click()
    assert here.value(column)[:3] == ["64", "63", "62"]
    assert table.locator("th[aria-sort=descending]").count() == 1
    here.page.locator("#directions input[type=search]").fill("weakest")
    assert len(here.value(column)) == 16
