"""An output file and its position: what it refuses to go on with, and what its errors say."""
import millrace
import pytest
from millrace import errors


def test_the_first_bytes_of_an_output_may_be_left_without_their_position(tmp_path):
    with millrace.Output(tmp_path / "out"):
        (tmp_path / "out").write_text("half a li")  # as a kill in the first commit leaves it
    with millrace.Output(tmp_path / "out") as out:
        assert out.position is None and (tmp_path / "out").read_text() == ""


def test_an_output_refuses_what_it_cannot_go_on_with(tmp_path):
    (tmp_path / "other").write_text("of another program")
    with pytest.raises(errors.InputChangedError, match="no position"):
        millrace.Output(tmp_path / "other")
    out = millrace.Output(tmp_path / "a")
    with pytest.raises(errors.OutputInUseError):
        millrace.Output(tmp_path / "a")
    out.write("abc", millrace.Position("s", "e", 1))
    out.close()
    (tmp_path / "a").write_text("a")
    with pytest.raises(errors.InputChangedError, match="1 bytes"):
        millrace.Output(tmp_path / "a")
    with pytest.raises(errors.IoError):
        millrace.Output(tmp_path / "nosuch" / "a")


@pytest.mark.parametrize("known", ["{}", "[]", "7", '{"bytes": "1", "position": null}',
                                   '{"bytes": 1, "position": ["s", "e", 1]}',
                                   '{"bytes": -1, "position": null}',
                                   '{"bytes": 1, "position": "s"}', '{"bytes": 1}'])
def test_an_output_refuses_a_position_file_of_another_kind(tmp_path, known):
    (tmp_path / "a").write_text("ab")
    (tmp_path / "a.position").write_text(known)
    with pytest.raises(errors.IoError, match="a.position does not hold") as refused:
        millrace.Output(tmp_path / "a")
    assert "begin anew" in refused.value.hint and (tmp_path / "a").read_text() == "ab"


def test_an_output_that_is_closed_takes_nothing_more(tmp_path):
    with millrace.Output(tmp_path / "a") as out:
        out.write("a", millrace.Position("s", "e", 1))
    for use in (out.commit, lambda: out.add("b"),
                lambda: out.write("b", millrace.Position("s", "e", 2))):
        with pytest.raises(errors.UsageError, match="a is closed"):
            use()
    out.close()  # as often as one likes
    with millrace.Output(tmp_path / "a") as out:
        assert out.position.number == 1 and (tmp_path / "a").read_text() == "a"


def test_an_output_refuses_a_result_that_has_no_position(client, tmp_path):
    """Everything since the last commit was lost without a word."""
    with millrace.Output(tmp_path / "a") as out:
        good, bad = client.map(["a", {"prompt": "b", "n": 0}])
        out.write("good\n", good)
        for use in (lambda: out.write("bad\n", bad), lambda: out.skip(bad)):
            with pytest.raises(errors.UsageError, match="no position") as refused:
                use()
            assert bad.job in refused.value.message and "add" in refused.value.hint
    assert (tmp_path / "a").read_text() == "good\n"
    with millrace.Output(tmp_path / "a") as out:
        assert out.position == good.position
        out.add("bad\n")
        out.write("more\n", out.position._replace(number=9))
    assert (tmp_path / "a").read_text() == "good\nbad\nmore\n"


FULL = """
import resource, signal, sys
import millrace
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
out = millrace.Output(sys.argv[1])
out.write("a" * 100, millrace.Position("s", "e", 1))
resource.setrlimit(resource.RLIMIT_FSIZE, (60, resource.RLIM_INFINITY))
millrace.output.os.ftruncate = lambda *_: millrace.output.os.write(-1, b"")  # fails, too
try:
    out.commit()
except millrace.errors.IoError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
out.close()
"""


def test_a_commit_that_fails_can_be_tried_again(bare_place, tmp_path):
    """Also where the bytes of the first try cannot be cut off."""
    done = bare_place.python("-c", FULL, tmp_path / "a")
    told = done.communicate()[0]
    assert done.returncode == 0 and f"cannot write {tmp_path / 'a'}" in told and "disk" in told
    with millrace.Output(tmp_path / "a") as out:
        assert out.position.number == 1
    assert (tmp_path / "a").read_text() == "a" * 100
