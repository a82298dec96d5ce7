"""Tokens are clients' keys: tenants, roles and revocation are the broker's own. TLS."""
import re
import ssl
import subprocess

import openai
import pytest
import urllib.error
import urllib.request
from http_keys import client_of
from http_place import HELLO, free_port, until


def has_engine(place, token):
    return place.get("/v1/models", Authorization=f"Bearer {token}")[1].get("data")


def test_tokens(keyed):
    acme, other = keyed.keys.new("a", "acme", "submit,read"), keyed.keys.new("o", "other", "admin")
    until(lambda: has_engine(keyed, acme), "engine")
    assert acme.startswith("sk-") and len(acme) == 67
    body, key = {"messages": HELLO}, {"Idempotency-Key": "one"}
    first = keyed.post("/v1/chat/completions", body, Authorization=f"Bearer {acme}", **key)
    second = keyed.post("/v1/chat/completions", body, Authorization=f"Bearer {other}", **key)
    again = keyed.post("/v1/chat/completions", body, Authorization=f"bearer {acme}", **key)
    assert [x[0] for x in (first, second, again)] == [200] * 3
    assert first[1]["created"] == again[1]["created"] != 0


def test_what_is_no_token(keyed):
    allowed = keyed.keys.new("a", "acme", "submit,read")
    wrong = "sk-" + "0" * 64
    for token in ("none", "sk-", "sk-" + "z" * 64, wrong, allowed[:-1]):
        with pytest.raises(openai.AuthenticationError) as caught:
            client_of(keyed, token).chat.completions.create(model="stub", messages=HELLO)
        assert token not in str(caught.value) or token in ("none", "sk-")
    assert keyed.get("/v1/models")[0] == 401
    assert keyed.get("/health")[0] == 200
    with pytest.raises(openai.AuthenticationError):
        client_of(keyed, wrong).models.list()


def test_a_new_key_is_let_in_at_once(keyed):
    """By the face, and by the broker behind it."""
    for number in range(3):
        stranger = "sk-" + f"{number + 1:064x}"
        assert keyed.get("/live", Authorization=f"Bearer {stranger}")[0] == 401
        token = keyed.keys.new(f"late-{number}", "acme", "submit,read")
        status, body = keyed.get("/live", Authorization=f"Bearer {token}")
        assert status == 200, body


def test_roles(keyed):
    token = keyed.keys.new("reader", "acme", "read")
    until(lambda: has_engine(keyed, token), "engine")
    with pytest.raises(openai.PermissionDeniedError):
        client_of(keyed, token).chat.completions.create(model="stub", messages=HELLO)


def test_a_key_that_may_only_submit(keyed):
    token, reader = (keyed.keys.new(name, "acme", roles)
                     for name, roles in (("s", "submit"), ("r", "submit,read")))
    until(lambda: has_engine(keyed, reader), "engine")
    header = {"Authorization": f"Bearer {token}"}
    for _ in range(2):
        status, body, _ = keyed.post("/v1/chat/completions", {"messages": HELLO}, **header)
        assert status == 403 and body["error"]["code"] == "unauthorized"
    allowed = keyed.keys.folder / "allowed"
    text, changed = re.subn(r"(?m)^(s\s+acme\s+)submit(\s)", r"\1submit,read\2",
                            allowed.read_text())
    assert changed == 1
    allowed.write_text(text)
    until(lambda: keyed.post("/v1/chat/completions", {"messages": HELLO}, **header)[0] == 200,
          "answer after the key got the role")


def test_ready_tells_a_token_without_the_role_from_a_server_that_is_down(keyed):
    reader = keyed.keys.new("r", "acme", "read")
    until(lambda: has_engine(keyed, reader), "engine")
    assert keyed.get("/ready", Authorization=f"Bearer {reader}")[0] == 200
    for role in ("submit", "operate"):
        header = {"Authorization": f"Bearer {keyed.keys.new(role, 'acme', role)}"}
        ready, models = (keyed.get(path, **header) for path in ("/ready", "/v1/models"))
        assert ready == models and ready[0] == 403, role
        assert ready[1]["error"]["type"] == "permission_error"
    assert keyed.get("/ready")[0] == keyed.get("/ready", Authorization="Bearer none")[0] == 401


def metrics_status(place, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(place.url + "/metrics",
                                                           headers=headers)) as answer:
            assert b"millrace_jobs_submitted_total" in answer.read()
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_metrics_of_the_face_are_for_operators(keyed, make_place):
    roles = {"operate": 200, "submit,read": 403, "admin": 403}
    for number, (role, status) in enumerate(roles.items()):
        token = keyed.keys.new(f"k{number}", "acme", role)
        assert metrics_status(keyed, Authorization=f"Bearer {token}") == status, role
    assert metrics_status(keyed) == metrics_status(keyed, Authorization="Bearer none") == 401


def test_metrics_and_the_face_are_one_server(make_place):
    port = free_port()
    place = make_place("--metrics", f"127.0.0.1:{port}", "--http", f"127.0.0.1:{port}")
    assert place.bound["metrics"] == place.url + "/metrics"
    assert metrics_status(place) == 200 and place.get("/health")[0] == 200


def test_a_token_that_is_revoked(keyed):
    token = keyed.keys.new("a", "acme", "submit,read")
    until(lambda: has_engine(keyed, token), "engine")
    with client_of(keyed, token) as client:
        client.chat.completions.create(model="stub", messages=HELLO)
        keyed.keys.run("revoke", "a", "--keys", keyed.keys.folder)

        def is_refused():
            try:
                client.chat.completions.create(model="stub", messages=HELLO)
            except (openai.AuthenticationError, openai.PermissionDeniedError):
                return True
            return False
        until(is_refused, "refusal")
        until(is_refused, "refusal")


def test_tls(tmp_path, make_place):
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
                   check=True, capture_output=True)
    place = make_place("--http-cert", certificate, "--http-key", key)
    assert place.url.startswith("https://")
    trusted = ssl.create_default_context(cafile=certificate)
    with urllib.request.urlopen(place.url + "/health", context=trusted) as answer:
        assert answer.status == 200
    with pytest.raises(OSError):  # nobody vouches for the certificate
        urllib.request.urlopen(place.url + "/health", context=ssl.create_default_context())
