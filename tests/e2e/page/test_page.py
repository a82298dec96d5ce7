"""The page in a browser: what it shows is what the broker holds."""
import re

import pytest
from http_place import free_port
from page_place import AWAY, jobs
from playwright.sync_api import expect

PHONE = {"viewport": {"width": 375, "height": 740}, "has_touch": True}


def figure(page, name):
    return page.locator("#figures > div", has=page.locator("dt", has_text=name)).locator("dd").first


def test_figures_batches_engines_and_charts(place, visit):
    page = visit(place)
    expect(page.locator("#connection")).to_have_text("Live")
    expect(page.locator("#headline")).to_have_text("No job has come yet.")
    expect(page.locator("#engines-note")).to_contain_text("millrace-engine")
    place.start_failing_engine("prompt 3")
    counts = place.run_jobs(jobs(1_200, "many", "a batch"))["counts"]
    for name in ("completed", "failed", "cancelled", "expired", "queued"):
        expect(figure(page, name.capitalize())).to_have_text(f"{counts[name]:,}")
    assert counts["failed"] == 111  # 3, 30 to 39, 300 to 399
    row = page.locator("#batch-rows tr")
    expect(row).to_have_count(1)
    expect(row.locator("td").nth(0)).to_have_text("a batch")
    expect(row.locator("td").nth(2)).to_have_text("1,200 of 1,200")
    expect(row.locator("td").nth(3)).to_have_text("111")
    expect(page.locator("#headline")).to_have_text("All is done, 111 jobs failed.")
    expect(page.locator("#subline")).to_have_text("1 engine connected, serving stub.")
    bar = row.get_by_role("progressbar")
    expect(bar).to_have_attribute("aria-valuetext", "100 % done, 111 jobs failed")
    engine = page.locator(".engine")
    expect(engine).to_have_count(1)
    expect(engine.locator(".about")).to_contain_text("stub")
    expect(page.locator("#chart-jobs svg")).to_have_attribute(
        "aria-label", re.compile(r"Jobs ended per second: [\d,.]+, in the last minutes between"))
    expect(page.locator("#chart-jobs path.line")).to_have_count(1)
    expect(page.locator("#newest-rows tr").first).to_contain_text("in a batch")


def test_failed_jobs_with_reasons_and_a_timeline(place, visit):
    place.start_failing_engine("prompt 1 of")
    place.run_jobs(jobs(3, "poor", "b"))
    page = visit(place, allowed=("404",))
    expect(page.locator("#reasons li")).to_have_text("context_exceeded · 1")
    row = page.locator("#failed-rows tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("the stub fails it")
    row.get_by_role("button", name="poor 1").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading", name="poor 1")).to_be_visible()
    expect(dialog.locator(".timeline li").first).to_contain_text("Submitted")
    expect(dialog.locator(".timeline li").last).to_contain_text("Failed")
    expect(dialog.locator(".fault")).to_contain_text("context_exceeded the stub fails it")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(row.get_by_role("button")).to_be_focused()

    page.get_by_label("Job id").fill("poor-002")
    page.keyboard.press("Enter")
    expect(dialog.locator(".output")).to_contain_text("answer to prompt 2 of poor")
    expect(dialog.locator(".facts")).to_contain_text("Modelany")
    expect(dialog.locator(".timeline li").last).to_contain_text("Completed")
    dialog.get_by_role("button", name="Close").click()
    page.get_by_label("Job id").fill("nosuch")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("nosuch")
    expect(dialog.locator(".note")).to_contain_text("by its id alone, and not by its custom_id")


def test_of_many_engines_the_first_have_cards_until_all_are_wanted(place, visit):
    for number in range(10, 0, -1):
        place.start_engine("--name", f"gpu-{number}")
    page = visit(place)
    cards = page.locator(".engine h3")
    expect(page.locator("#engines-note")).to_have_text("6 of 10, silent ones first")
    expect(cards).to_have_text([f"gpu-{number}" for number in range(1, 7)])
    page.get_by_role("button", name="Show all 10").press("Enter")
    expect(cards).to_have_text([f"gpu-{number}" for number in range(1, 11)])
    expect(page.locator("#engines-note")).to_have_text("10 engines")
    page.get_by_role("button", name="Show the first 6").click()
    expect(cards).to_have_count(6)


def test_a_prompt_is_answered_piece_by_piece(place, visit):
    place.start_engine("--text", "one two three four five six", "--job-steps", "6", "--step-ms",
                       "300")
    page = visit(place)
    page.evaluate("""() => { window.seen = new Set();
      new MutationObserver(() => window.seen.add(document.getElementById('reply').textContent))
        .observe(document.getElementById('reply'), { childList: true }); }""")
    page.get_by_role("textbox", name="Prompt").fill("Count")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    expect(page.locator("#reply")).to_have_text("one two three four five six")
    expect(page.locator("#reply-note")).to_contain_text("1 token in, 6 out")
    expect(page.locator("#reply-note")).not_to_contain_text("cut off")
    assert len(page.evaluate("[...window.seen]")) > 2
    expect(page.get_by_role("button", name="Send")).to_be_visible()


def test_a_prompt_that_is_stopped_or_refused(place, visit):
    engine = place.start_engine("--step-ms", "3600000")
    page = visit(place, allowed=("400",))
    page.get_by_role("textbox", name="Prompt").fill("Wait")
    page.get_by_role("button", name="Send").click()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#reply-note")).to_have_text("Stopped.")
    page.evaluate("document.getElementById('prompt-tokens').removeAttribute('max')")
    page.get_by_role("spinbutton", name="Tokens").fill("99999999")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("#reply-note.error-text")).to_contain_text("max_tokens")
    engine.kill()  # its step takes an hour


def test_a_broker_that_goes_and_comes_back(make_place, visit):
    place = make_place("--http", f"127.0.0.1:{free_port()}")
    page = visit(place, allowed=AWAY)
    trouble = page.get_by_role("alert").filter(visible=True)
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")
    expect(trouble).to_have_count(0)
    place.broker.terminate()
    place.broker.wait()
    expect(page.locator("#connection")).to_have_attribute("data-state", "away")
    expect(page.locator("#content")).to_have_class("old")
    expect(trouble).to_have_text(re.compile(
        r"The broker does not answer\. What you see is from \d\d:\d\d:\d\d\. The page goes on "))
    place.start_broker()
    place.start_failing_engine("nothing")
    place.run_jobs(jobs(5, "after", "c"))
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")
    expect(figure(page, "Completed")).to_have_text("5")
    expect(trouble).to_have_count(0)


def test_a_fault_of_the_page_itself_is_not_told_as_the_broker_s(place, visit):
    page = visit(place, allowed=("TypeError", "Cannot read", "undefined"))
    expect(page.locator("#connection")).to_have_text("Live")
    page.route("**/live?*", lambda route: route.fulfill(json={"time_us": 1, "samples": []}))
    expect(page.get_by_role("alert").filter(visible=True)).to_contain_text("This page has a fault")
    expect(page.locator("#connection")).to_have_text("Stopped")


def test_a_long_name_of_a_batch_leaves_a_result_on_one_line(place, visit):
    place.start_failing_engine("nothing")
    place.run_jobs(jobs(1, "short", "b") + jobs(1, "other", "a long name " * 10))
    page = visit(place, **PHONE)
    rows = page.locator("#newest-rows tr")
    expect(rows).to_have_count(2)
    assert rows.nth(0).bounding_box()["height"] == rows.nth(1).bounding_box()["height"]


@pytest.mark.parametrize("width", [320, 375, 768])
def test_nothing_is_wider_than_the_screen(place, visit, width):
    place.start_failing_engine("prompt 1 of")
    place.run_jobs([dict(one, custom_id="x" * 90) for one in jobs(4, "long" * 20, "b" * 90)])
    page = visit(place, **{**PHONE, "viewport": {"width": width, "height": 740}})
    expect(page.locator("#failed-rows tr")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.locator("#failed-rows button").tap()
    expect(page.locator(".fault")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    inside = page.get_by_role("dialog").bounding_box()
    assert inside["x"] >= 0 and inside["x"] + inside["width"] <= width


def test_everything_is_reached_by_the_keyboard(place, visit):
    place.start_failing_engine("prompt 1 of")
    place.run_jobs(jobs(3, "poor", "b"))
    page = visit(place)
    expect(page.locator("#failed-rows tr")).to_have_count(1)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="To the content")).to_be_focused()
    reached, seen_focus = [], []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(
            "document.activeElement.id || document.activeElement.textContent.trim()"))
        seen_focus.append(page.evaluate(
            "getComputedStyle(document.activeElement).outlineStyle !== 'none'"))
        if reached[-1] == "prompt-send":
            break
    for name in ("Engines", "theme", "poor 1", "job-id", "prompt", "prompt-model", "prompt-send"):
        assert name in reached, reached
    assert all(seen_focus), list(zip(reached, seen_focus))
    chart = page.locator("#chart-jobs svg")
    chart.focus()
    page.keyboard.press("ArrowLeft")
    expect(chart).to_have_attribute("aria-label", re.compile("s ago"))


def background(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_light_dark_and_as_the_system(place, visit):
    light = visit(place, color_scheme="light")
    page = visit(place, color_scheme="dark")
    paper, night = background(light), background(page)
    assert paper != night
    theme = page.locator("#theme")
    expect(theme).to_have_attribute("aria-label", "Colours: as the system")
    theme.click()
    assert background(page) == paper
    theme.click()
    assert background(page) == night
    expect(theme).to_have_attribute("aria-label", "Colours: dark")
    page.emulate_media(color_scheme="light")
    page.reload()
    assert background(page) == night
    expect(page.locator("#connection")).to_have_text("Live")


def test_what_jobs_say_is_text(place, visit):
    """The page shows it, and the browser makes neither elements nor scripts of it."""
    place.start_failing_engine("alert")
    hostile = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    place.run_jobs([{"id": "evil", "custom_id": hostile, "prompt": hostile, "batch": hostile}])
    page = visit(place)
    expect(page.locator("#failed-rows button")).to_have_text(hostile)
    expect(page.locator("#batch-rows td").first).to_have_text(hostile)
    page.locator("#failed-rows button").click()
    expect(page.get_by_role("heading", name=hostile)).to_be_visible()
    assert page.locator("main img, dialog img, body script").count() == 0
