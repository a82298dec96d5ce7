"""A client of under 60 lines, written from schemas/ alone, submits, follows and resumes."""
import ast
import json
import random
import subprocess

from client_place import ROOT

EXAMPLE = ROOT / "client" / "python" / "examples" / "from_the_schemas.py"


def test_it_has_less_than_sixty_lines_and_uses_no_package_of_ours():
    text = EXAMPLE.read_text()
    assert text.count("\n") < 60, text.count("\n")
    names = [alias.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import)
             for alias in node.names]
    assert set(names) == {"json", "os", "sys", "time", "msgpack", "zmq"}
    assert not any(isinstance(node, ast.ImportFrom) for node in ast.walk(ast.parse(text)))


def test_it_survives_kills_of_itself_and_of_the_broker(place, tmp_path):
    count, seed = 3_000, random.randrange(2 ** 32)
    print("seed", seed)
    chance = random.Random(seed)
    prompts, output = tmp_path / "prompts.txt", tmp_path / "output.jsonl"
    prompts.write_text("".join(f"prompt {i}\n" for i in range(count)))
    for kill in range(6):
        program = place.python(EXAMPLE, place.clients, prompts, output)
        try:
            assert program.wait(chance.uniform(0.2, 0.6)) == 0
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()
            if output.exists():
                with open(output, "ab") as file:
                    file.write(b'{"number": half a li')
        if kill == 2:
            program = place.python(EXAMPLE, place.clients, prompts, output)
            place.kill_broker()
            place.start_broker()
            assert program.wait() == 0
    assert place.python(EXAMPLE, place.clients, prompts, output).wait() == 0
    found = [json.loads(line) for line in output.read_text().splitlines()]
    assert [one["number"] for one in found] == list(range(1, count + 1))
    assert len({one["job"] for one in found}) == count
