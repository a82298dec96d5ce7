import pathlib
import sys

import pytest
from playwright.sync_api import expect, sync_playwright

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "http"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from http_place import places_of  # noqa: E402
from page_place import PagePlace, Visit, open_browser  # noqa: E402
from patience import PATIENCE_S  # noqa: E402

expect.set_options(timeout=PATIENCE_S * 1000)


@pytest.fixture
def make_place(tmp_path_factory):
    """Makes brokers with a page, which end with the test."""
    yield from places_of(PagePlace, tmp_path_factory, "p")


@pytest.fixture
def place(make_place):
    return make_place()


# Playwright's loop of asyncio counts as running in this thread until the browser ends, and keeps
# tests of other folders from running loops of their own.
@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        one = open_browser(playwright)
        yield one
        one.close()


@pytest.fixture
def visit(browser):
    """Opens pages. None may log an error or ask another host for anything."""
    visits = []

    def open_page(place, **options):
        visits.append(Visit(browser, place, **options))
        return visits[-1].page
    yield open_page
    for one in visits:
        one.close()
