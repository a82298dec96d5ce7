"""examples/pipeline.py: its parts are killed, and it loses and doubles nothing."""
import json

import millrace
from client_place import until


def test_the_parts_go_on_after_kills(own_fleet, examples, tmp_path):
    topics = (examples / "data/topics.txt").read_text().splitlines()
    output = tmp_path / "titles.jsonl"
    first = own_fleet.told("pipeline.py", "draft", examples / "data/topics.txt")
    again = own_fleet.told("pipeline.py", "draft", examples / "data/topics.txt")
    assert first == f"{len(topics)} new drafts, 0 were known\n"
    assert again == f"0 new drafts, {len(topics)} were known\n"

    for reached in (2, 5, 8):
        parts = [own_fleet.example("pipeline.py", "title"),
                 own_fleet.example("pipeline.py", "collect", output, "--limit", len(topics))]
        until(lambda: own_fleet.high("titles") >= reached, f"{reached} titles")
        for part in parts:
            part.kill()
            part.wait()
        if reached == 5:
            own_fleet.kill_broker()
            own_fleet.start_broker()
    stage = own_fleet.example("pipeline.py", "title")
    own_fleet.told("pipeline.py", "collect", output, "--limit", len(topics))

    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert sorted(line["topic"] for line in lines) == sorted(topics)
    assert own_fleet.high("titles") == len(topics)
    with millrace.Client(own_fleet.clients) as client:
        drafts = {result.metadata["topic"]: " ".join(result.text.split())
                  for result in client.results("drafts", follow=False)}
    assert len(drafts) == len(topics)
    for line in lines:
        assert line["title"] and line["error"] is None and line["draft"] == drafts[line["topic"]]
    assert stage.poll() is None  # it waits for further drafts
    stage.kill()


def test_a_draft_that_is_read_twice_makes_one_title(own_fleet, examples, tmp_path):
    """As after a kill between the storing of the title's job and the move of the cursor."""
    import pipeline
    few = tmp_path / "few.txt"
    few.write_text("why bread rises\nwhat whales eat\n")
    with millrace.Client(own_fleet.clients) as client:
        pipeline.draft(client, few)
        until(lambda: own_fleet.high("drafts") == 2, "drafts")

        class Twice:
            """The client, with a stream that ends, and gives each draft twice."""
            submit = client.submit

            @staticmethod
            def results(stream, cursor):
                assert (stream, cursor) == ("drafts", "title")
                return [one for one in client.results(stream, follow=False) for _ in range(2)]

        pipeline.title(Twice)
        pipeline.collect(client, tmp_path / "out.jsonl", 2)
        assert own_fleet.high("titles") == 2
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 2
