"""Engines that share prefixes in a bucket: of moto's server, which checks what they sign."""
import pytest

from fleet import TINY_BEGINNING, run
from pip_packages import Absent
from s3_server import BUCKET, Server

PLACE = ("--prefix-cache", f"s3://{BUCKET}/fleet/gpus")


@pytest.fixture(scope="module")
def without(tmp_path_factory):
    return run(tmp_path_factory.mktemp("without") / "run", "--prefix-cache", "off", tiny=True)


@pytest.fixture
def server(tmp_path):
    try:
        one = Server(tmp_path)
    except Absent as why:
        pytest.skip(f"no server of S3's protocol: {why}")
    yield one
    one.stop()


def damage(server):
    server.ask(f"for x in s3.list_objects_v2(Bucket='{BUCKET}')['Contents']:\n"
               f"  one = {{'Bucket': '{BUCKET}', 'Key': x['Key']}}\n"
               f"  body = bytearray(s3.get_object(**one)['Body'].read())\n"
               f"  body[-1] ^= 1\n"
               f"  s3.put_object(**one, Body=bytes(body))\nout = 0")


def test_one_computes_and_the_others_read(tmp_path, server, without):
    server.ask(f"out = s3.put_object(Bucket='{BUCKET}', Key='fleet/notes', Body=b'x') and 0")
    first = run(tmp_path / "first", *PLACE, tiny=True, environment=server.environment)
    assert first.choices == without.choices
    assert "warn" not in first.log, first.log
    objects = server.objects()
    assert len(objects) > 1 and all(x.endswith(".kv") and x.startswith("fleet/gpus/")
                                    for x in set(objects) - {"fleet/notes"}), objects

    second = run(tmp_path / "second", *PLACE, tiny=True, environment=server.environment)
    assert second.choices == without.choices
    assert min(second.cached) > len(TINY_BEGINNING) // 2, second.cached
    assert "prefixes are shared in a store" in second.log
    assert "warn" not in second.log, second.log

    server.ask(f"out = s3.delete_object(Bucket='{BUCKET}', Key='fleet/notes') and 0")
    damage(server)
    third = run(tmp_path / "third", *PLACE, tiny=True, environment=server.environment)
    assert third.choices == without.choices
    assert min(third.cached) == 0
    assert "a prefix segment cannot be used and is removed" in third.log, third.log
    assert "the checksum of a page is wrong" in third.log, third.log


def test_the_bound(tmp_path, server, without):
    limit = 15_000  # less than one beginning
    for name in ("first", "second"):
        ran = run(tmp_path / name, *PLACE, "--prefix-disk", str(limit), tiny=True,
                  environment=server.environment)
        assert ran.choices == without.choices
    assert 0 < sum(server.objects().values()) <= limit


@pytest.mark.parametrize("change, place, told", [
    ({"AWS_SECRET_ACCESS_KEY": "wrong"}, PLACE[1], ("SignatureDoesNotMatch", "check AWS_ACCESS")),
    ({"AWS_ACCESS_KEY_ID": "nobody"}, PLACE[1], ("403", "check AWS_ACCESS_KEY_ID")),
    ({}, "s3://absent/fleet", ("NoSuchBucket", "make this bucket")),
    ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, PLACE[1], ("127.0.0.1", "AWS_ENDPOINT_URL")),
])
def test_a_store_that_cannot_be_used_stops_nobody(tmp_path, server, without, change, place, told):
    ran = run(tmp_path / "run", "--prefix-cache", place, tiny=True,
              environment={**server.environment, **change})
    assert ran.choices == without.choices
    assert "the prefix store cannot be used" in ran.log, ran.log
    for words in told:
        assert words in ran.log, ran.log
    assert server.environment["AWS_SECRET_ACCESS_KEY"] not in ran.log
