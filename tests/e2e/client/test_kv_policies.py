"""KV policies of jobs on a real broker: which engine gets a job, and what the programs report."""
import json

from programs import completion, wait_until


def submit(broker, name, wanted, *extra, expect=0):
    path = broker.folder / name
    path.write_text("".join(completion(f"{kv}-{i}", "p", **({"kv": kv} if kv else {})) + "\n"
                            for i, kv in enumerate(wanted)))
    return broker.millrace("submit", str(path), *extra, expect=expect)


def results(broker):
    done = broker.millrace("results", "results")
    assert done.returncode == 0 or "holds no result" in done.stderr, done.stderr
    return {x["custom_id"]: x for x in map(json.loads, done.stdout.splitlines())}


def by_engine(path):
    return [x.split()[1] for x in path.read_text().splitlines() if x.startswith("start ")]


def engines(broker):
    return json.loads(broker.millrace("status", "--json", expect=0).stdout)["engines"]


def join(broker, count, **env):
    process = broker.engine(**env)
    wait_until(lambda: len(engines(broker)) == count, f"{count} engines")
    return process


def test_engines_of_one_model_get_what_they_run_and_the_rest_waits(broker):
    exact, small = broker.folder / "exact.log", broker.folder / "small.log"
    join(broker, 1, STUB_KV="f16;f16/f16 x30", STUB_LOG=str(exact))
    join(broker, 2, STUB_KV="k4v3;f16/f16 x1, r4/r3 x29", STUB_LOG=str(small))
    # Jobs name a policy as given to --kv, by its meaning, or as results report it.
    wanted = ["f16", "k4v3", "r4/r3", "f16/f16 x1, r4/r3 x29", "f16/f16"] * 4
    done = submit(broker, "mixed.jsonl", wanted, "--wait")
    assert "waits" not in done.stderr and "20 completed" in done.stderr
    assert (len(by_engine(exact)), len(by_engine(small))) == (8, 12)
    used = {name.rsplit("-", 1)[0]: x["response"]["body"]["millrace"]["effective"]["kv"]
            for name, x in results(broker).items()}
    assert used == {"f16": "f16/f16 x30", "f16/f16": "f16/f16 x30", **{
        kv: "f16/f16 x1, r4/r3 x29" for kv in ("k4v3", "r4/r3", "f16/f16 x1, r4/r3 x29")}}

    # No engine runs k5v3. submit says so once, and so does status; an engine that joins later takes
    # these jobs.
    done = submit(broker, "late.jsonl", ["k5v3", "r5/r3", "k5v3", ""])
    assert done.stderr.count("no engine connected runs kv k5v3") == 1
    assert "they run f16, k4v3; start one with --kv k5v3" in done.stderr
    wait_until(lambda: "-3" in results(broker), "the job that names no policy")
    assert not {"k5v3-0", "r5/r3-1", "k5v3-2"} & set(results(broker))
    job = done.stderr.split("job ", 1)[1].split(" waits", 1)[0]
    told = broker.millrace("status", "--job", job, expect=0).stdout
    assert "queued, not handed out yet" in told and "no result yet" in told
    assert "waits: no engine connected runs kv k5v3: they run f16, k4v3" in told
    told = json.loads(broker.millrace("status", "--job", job, "--json", expect=0).stdout)
    assert told["waits"].startswith("no engine connected runs kv k5v3")

    # The jobs' policies survive a restart of the broker.
    broker.kill()
    broker.start()
    wait_until(lambda: len(engines(broker)) == 2, "the engines' return")
    third = broker.folder / "third.log"
    join(broker, 3, STUB_KV="k5v3", STUB_LOG=str(third))
    wait_until(lambda: {"k5v3-0", "r5/r3-1", "k5v3-2"} <= set(results(broker)), "the late jobs")
    assert len(by_engine(third)) == 3
    told = {x["kv_policies"][0]: x for x in engines(broker)}
    assert set(told) == {"f16", "k4v3", "k5v3"}
    assert told["f16"]["kv"] == "f16/f16 x30" and told["f16"]["kv_bytes_per_token"] == 23040
    assert "kv f16 (1.0x)" in broker.millrace("status", expect=0).stdout
    job = results(broker)["k5v3-0"]["id"]
    assert "completed, handed out once" in broker.millrace("status", "--job", job, expect=0).stdout


def test_a_policy_that_does_not_exist_is_refused_by_name(broker):
    broker.engine()
    done = submit(broker, "wrong.jsonl", ["k9v4", "f16"], expect=1)
    assert 'wrong.jsonl line 1: kv: KV policy "k9v4"' in done.stderr and "k5v3" in done.stderr
    wait_until(lambda: "f16-1" in results(broker), "the good line")
