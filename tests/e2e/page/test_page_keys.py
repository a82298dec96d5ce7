"""The page of a broker with keys: it asks for a token, and shows the token's tenant alone."""
import urllib.request

import pytest
from http_keys import Keys
from http_place import millrace
from page_place import AWAY, PagePlace, jobs
from playwright.sync_api import expect


@pytest.fixture
def keyed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("k")
    keys = Keys(folder)
    tokens = {name: keys.new(name, tenant, roles) for name, tenant, roles in (
        ("acme", "acme", "submit,read"), ("other", "other", "submit,read"),
        ("submitter", "acme", "submit"), ("reader", "acme", "read"))}
    place = PagePlace(folder, "--keys", keys.folder).start_broker()
    place.keys, place.tokens = keys, tokens
    yield place
    place.close()


def submit(place, name, number):
    with millrace.Client(f"ipc://{place.sockets}/clients",
                         key=place.keys.home / f"{name}.key") as client:
        client.submit_many(jobs(number, name, name))


def colour(page, place):
    return page.locator(place).first.evaluate("one => getComputedStyle(one).color")


@pytest.mark.parametrize("width", [320, 390])
def test_the_header_of_a_phone_keeps_its_two_rows(keyed, visit, width):
    page = visit(keyed, allowed=("401", *AWAY), viewport={"width": width, "height": 844})

    expect(page.locator("#connection")).to_have_text("A token is needed")
    page.get_by_label("Token", exact=True).fill(keyed.tokens["acme"])
    page.keyboard.press("Enter")
    expect(page.locator("#connection")).to_have_text("Live")
    height = page.locator("header.top").bounding_box()["height"]
    keyed.broker.kill()
    keyed.broker.wait()
    expect(page.locator("#connection")).to_have_text("No answer")
    assert page.locator("header.top").bounding_box()["height"] == height
    row = page.locator("#theme").bounding_box()
    for name in (".brand", "#connection", "#forget-token"):
        box = page.locator(name).bounding_box()
        assert row["y"] < box["y"] + box["height"] / 2 < row["y"] + row["height"], name


def test_a_token_shows_its_tenant(keyed, visit):
    tokens = keyed.tokens
    submit(keyed, "acme", 5)
    submit(keyed, "other", 7)
    page = visit(keyed, allowed=("401", "403"))
    panel = page.get_by_role("heading", name="This broker asks who you are")
    expect(panel).to_be_visible()
    expect(page.locator("#content")).to_be_hidden()
    expect(page.get_by_label("Token", exact=True)).to_be_focused()
    for wrong, why in (("sk-" + "0" * 64, "not one that this server allows"),
                       (tokens["submitter"], "role")):
        page.get_by_label("Token", exact=True).fill(wrong)
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text(why)
        assert colour(page, "#token-error") != colour(page, "#token-panel p")
    page.get_by_label("Token", exact=True).fill(tokens["acme"])
    page.keyboard.press("Enter")
    expect(panel).to_be_hidden()
    expect(page.locator("#batch-rows tr")).to_have_count(1)
    expect(page.locator("#batch-rows tr")).to_contain_text("0 of 5")
    page.reload()
    expect(page.locator("#batch-rows tr")).to_contain_text("0 of 5")
    page.get_by_role("button", name="Forget token").click()
    expect(panel).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0
    page.get_by_label("Token", exact=True).fill(tokens["other"])
    page.keyboard.press("Enter")
    expect(page.locator("#batch-rows tr")).to_contain_text("0 of 7")
    assert tokens["other"] not in page.content()


def test_the_feed_wants_a_token(keyed):
    token = keyed.tokens["reader"]
    for path in ("/live", "/live/jobs", "/live/jobs/x"):
        assert keyed.get(path)[0] == 401
    assert keyed.get("/live", Authorization=f"Bearer {token}")[0] == 200
    with urllib.request.urlopen(keyed.url + "/") as page:  # it holds nothing
        assert page.status == 200
