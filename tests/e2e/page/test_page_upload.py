"""A file that is dropped on the page runs as a batch, and its results come back."""
import json

from playwright.sync_api import expect


def chat_lines(number):
    return "".join(json.dumps(
        {"custom_id": f"line {i}", "method": "POST", "url": "/v1/chat/completions",
         "body": {"model": "stub", "messages": [{"role": "user", "content": f"Say {i}"}]}}) + "\n"
        for i in range(number))


def drop(page, name, text):
    # It is shown once the page's programs are there, which take the file.
    expect(page.get_by_role("heading", name="Run a file")).to_be_visible()
    data = page.evaluate_handle("""([name, text]) => {
      const data = new DataTransfer();
      data.items.add(new File([text], name));
      return data;
    }""", [name, text])
    page.dispatch_event("#drop", "dragover", {"dataTransfer": data})
    expect(page.locator("#drop")).to_have_class("drop over")
    page.dispatch_event("#drop", "drop", {"dataTransfer": data})
    expect(page.locator("#drop")).to_have_class("drop")


def test_a_dropped_file_runs_and_a_bad_one_says_where(place, visit):
    place.start_engine("--text", "an answer")
    page = visit(place)
    drop(page, "good.jsonl", chat_lines(30))
    good = page.locator("#runs li", has_text="good.jsonl")
    expect(good).to_contain_text("completed, 30 of 30 lines")
    with page.expect_download() as told:
        good.get_by_role("button", name="Results").click()
    with open(told.value.path(), encoding="utf-8") as file:
        results = [json.loads(line) for line in file]
    assert {x["custom_id"] for x in results} == {f"line {i}" for i in range(30)}
    assert results[0]["response"]["body"]["choices"][0]["message"]["content"] == "an answer"
    expect(page.locator("#batch-rows")).to_contain_text("30 of 30")
    expect(page.locator("#batch-rows td").first).to_have_text("good.jsonl")
    expect(page.get_by_role("navigation").get_by_role("link", name="File")).to_be_visible()
    page.get_by_label("Job id").fill(place.get("/live/jobs?state=completed")[1]["jobs"][0]["job"])
    page.keyboard.press("Enter")
    expect(page.locator("#job-body .notice")).to_contain_text("in the file’s results")
    expect(page.locator("#job-body .facts")).to_contain_text("Modelstub")
    page.keyboard.press("Escape")

    page.get_by_label("Drop a file").set_input_files(
        {"name": "bad.jsonl", "mimeType": "application/jsonl",
         "buffer": (chat_lines(1) + "nonsense\n").encode()})
    expect(page.locator("#runs li", has_text="bad.jsonl")).to_contain_text("line 2: not valid JSON")
    page.reload()
    expect(page.locator("#runs li")).to_have_count(2)


def test_on_a_phone_a_long_error_leaves_room_for_the_name(place, visit):
    place.start_engine("--text", "an answer")
    page = visit(place, viewport={"width": 375, "height": 740})
    drop(page, "without-any-address.jsonl", '{"custom_id": "a", "prompt": "x"}\n' * 3)
    item = page.locator("#runs li", has_text="without-any-address.jsonl")
    expect(item).to_contain_text("line 1: the line has no url, method and body")
    expect(item).to_contain_text("millrace submit takes lines that are jobs alone")
    expect(item).to_contain_text("and 2 more errors")
    name = item.locator("b").evaluate("one => one.getClientRects().length")
    assert name == 1, f"the name has {name} lines"
    assert page.evaluate("document.documentElement.scrollWidth") == 375


def begin_batch(place, name):
    """Does what another client does."""
    form = (b'--cut\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            b'--cut\r\nContent-Disposition: form-data; name="file"; filename="f.jsonl"\r\n\r\n'
            + chat_lines(2).encode() + b"\r\n--cut--\r\n")
    file = place.post("/v1/files", form,
                      **{"Content-Type": "multipart/form-data; boundary=cut"})[1]
    status, batch, _ = place.post("/v1/batches", {
        "input_file_id": file["id"], "endpoint": "/v1/chat/completions",
        "completion_window": "24h", "metadata": {"file": name}})
    assert status == 200, batch


def test_batches_of_others_appear_whatever_failed_before(place, visit):
    place.start_engine("--text", "an answer")
    page = visit(place, allowed=("ERR_FAILED",))
    begin_batch(place, "first.jsonl")
    first = page.locator("#runs li", has_text="first.jsonl")
    expect(first).to_contain_text("completed, 2 of 2 lines")
    failed = []

    def fail(route):
        failed.append(route.request.url)
        route.abort()
    page.route("**/v1/batches?*", fail)
    with page.expect_event("requestfailed", lambda request: "/v1/batches" in request.url):
        pass
    page.unroute("**/v1/batches?*")
    assert failed
    begin_batch(place, "second.jsonl")
    expect(page.locator("#runs li", has_text="second.jsonl")).to_contain_text("completed, 2 of 2")


def test_without_a_place_for_files_there_is_no_section(make_place, visit):
    place = make_place("--ledger", "memory:")
    page = visit(place)
    expect(page.locator("#connection")).to_have_text("Live")
    expect(page.get_by_role("heading", name="Run a file")).to_be_hidden()
