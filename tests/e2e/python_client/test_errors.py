"""Exceptions: each error code of the schemas has one, which says what, where and what to do."""
import os
import pickle
import threading
import traceback

import millrace
import pytest
from client_place import ROOT, keys, until
from millrace import errors
from millrace._advice import ADVICE
from patience import PATIENCE_S

CODES = __import__("json").loads((ROOT / "schemas/json/common.json").read_text())[
    "$defs"]["error_code"]["x-known"]


@pytest.mark.parametrize("code", CODES)
def test_each_code_has_an_exception_and_advice(code):
    kind = errors.EXCEPTIONS[code]
    error = errors.error_of({"code": code, "message": "job a: it is wrong", "retry_ms": 5})
    assert type(error) is kind and isinstance(error, millrace.MillraceError)
    assert getattr(errors, kind.__name__) is kind and kind.__doc__ and kind.status >= 400
    assert str(error) == f"{code}: job a: it is wrong\n  {error.hint}" and error.hint
    assert error.hint[0].islower() and error.hint[-1] != "."
    assert str(errors.error_of({"code": code, "message": "m", "hint": "h"})) == f"{code}: m\n  h"
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind and again.as_dict() == error.as_dict() and again.retry_ms == 5


def test_there_is_no_advice_for_other_codes():
    assert list(ADVICE) == CODES == list(errors.EXCEPTIONS)


def test_a_code_of_a_later_version_is_an_error_of_millrace():
    error = errors.error_of({"code": "brand_new", "message": "m"})
    assert type(error) is millrace.MillraceError and error.code == "brand_new"


def test_no_broker_and_one_that_is_silent_are_told_apart(bare_place):
    with pytest.raises(errors.UnreachableError, match="nothing listens there") as caught:
        millrace.Client(connect_timeout_s=0.3)
    assert bare_place.clients in str(caught.value) and "millrace-broker" in caught.value.hint
    bare_place.start_broker()
    bare_place.broker.send_signal(19)  # SIGSTOP
    try:
        with pytest.raises(errors.TimedOutError, match="something listens"):
            millrace.Client(connect_timeout_s=1.5)
    finally:
        bare_place.broker.send_signal(18)
    millrace.Client().close()


def test_a_broker_that_stays_away_is_an_error_after_a_while(place):
    with millrace.Client(away_timeout_s=0.5) as client:
        place.kill_broker()
        with pytest.raises(errors.UnreachableError):
            client.status()
        with pytest.raises(errors.UnreachableError):
            client.submit("x")
        place.start_broker()
        assert client.submit("x").ok


def test_wrong_endpoints_are_refused(bare_place, monkeypatch):
    with pytest.raises(errors.UsageError, match="not an endpoint"):
        millrace.Client("localhost:5570")
    with pytest.raises(errors.UsageError, match="bytes"):
        millrace.Client("ipc:///tmp/" + "x" * 120)
    with pytest.raises(errors.UnauthorizedError, match="another machine"):
        millrace.Client("tcp://192.0.2.1:5570")
    os.mkdir(os.path.join(bare_place.runtime, "millrace"), 0o755)
    os.chmod(os.path.join(bare_place.runtime, "millrace"), 0o755)
    with pytest.raises(errors.IoError, match="other users"):
        millrace.Client()


def test_a_closed_client_says_so(place):
    client = millrace.Client()
    client.close()
    with pytest.raises(errors.UsageError, match="closed"):
        client.submit("x")
    client.close()


def frames_of(use):
    with pytest.raises(millrace.MillraceError) as caught:
        use()
    return len(list(traceback.walk_tb(caught.value.__traceback__)))


def test_an_error_that_is_told_again_is_another_exception(place):
    """Each time that it was raised it kept the frames of all times before."""
    client = millrace.Client()
    client.close()
    assert len({frames_of(client.status) for _ in range(10)}) == 1
    assert len({frames_of(lambda: next(client.partials())) for _ in range(10)}) == 1


def test_a_failure_of_the_client_itself_is_told_to_all(place, monkeypatch):
    """One that is no error of Millrace becomes one, and its cause tells where it comes from."""
    with millrace.Client() as client:
        monkeypatch.setattr(client._link, "_check_patience", lambda _: 1 / 0)
        for use in (client.status, lambda: client.submit("x"), lambda: next(client.results())):
            with pytest.raises(errors.InternalError, match="division by zero") as caught:
                use()
            assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_questions_that_are_given_up_together_have_an_exception_each(place):
    with millrace.Client(away_timeout_s=0.2) as client:
        place.kill_broker()
        asked = [client._link.ask("status_request", {}) for _ in range(3)]
        told = [one.exception(PATIENCE_S) for one in asked]
    assert len(set(map(id, told))) == 3
    assert {error.code for error in told} == {"unreachable"} and told[0].hint == told[2].hint


def test_the_engines_endpoint_is_told(place):
    with pytest.raises(errors.UnexpectedMessageError):
        millrace.Client(place.clients.replace("clients", "engines"))


def test_keys_open_what_their_roles_allow(bare_place, monkeypatch):
    folder, mine, other = (bare_place.folder / name for name in ("keys", "me.key", "other.key"))
    keys("init", folder)
    keys("new", mine, "--keys", folder, "--name", "me", "--roles", "submit")
    bare_place.start_broker("--keys", folder)
    with millrace.Client(key=mine) as client:
        assert client.submit("x").ok
        with pytest.raises(errors.UnauthorizedError):
            next(client.results())
    monkeypatch.setenv("MILLRACE_KEY", str(mine))
    millrace.Client().close()
    monkeypatch.delenv("MILLRACE_KEY")
    with pytest.raises(errors.UnauthorizedError, match="do not agree on keys"):
        millrace.Client(connect_timeout_s=5)
    broker_line = mine.read_text().splitlines()[-1]
    keys("new", other, "--broker-key", broker_line.split()[1])
    with pytest.raises(errors.UnauthorizedError, match="refused the key"):
        millrace.Client(key=other, connect_timeout_s=5)


def test_a_doorbell_of_a_broker_with_keys_is_heard(bare_place):
    """Its topics begin with the tenant, which the client must take off."""
    folder, mine, engine = (bare_place.folder / name for name in ("keys", "me.key", "gpu.key"))
    keys("init", folder)
    keys("new", mine, "--keys", folder, "--name", "me", "--roles", "submit,read")
    keys("new", engine, "--keys", folder, "--name", "gpu", "--roles", "work")
    bare_place.start_broker("--keys", folder)
    bare_place.start_engine("--key", engine)
    with millrace.Client(key=mine) as client:
        assert client.welcome.doorbell_prefix
        seen = []
        following = threading.Thread(
            target=lambda: seen.extend(client.results("mine", limit=2)), daemon=True)
        following.start()
        until(lambda: "mine" in client._link._listeners, "listener")
        client.submit_many(["a", "b"], stream="mine")
        until(lambda: client._link._highs.get("mine") or len(seen) == 2, "ring")
        following.join()
        assert [result.number for result in seen] == [1, 2]
        client._link.listen("mine")
        until(lambda: client._link._highs.get("mine") == 2, "ring that is repeated")


def test_key_files_are_checked(tmp_path):
    path = tmp_path / "a.key"
    with pytest.raises(errors.NotFoundError):
        millrace.Client(key=path)
    path.write_text("public x\nsecret y\n")
    path.chmod(0o644)
    with pytest.raises(errors.UnauthorizedError, match="others may"):
        millrace.Client(key=path)
    path.chmod(0o600)
    with pytest.raises(errors.UsageError, match="no|not"):
        millrace.Client(key=path)
