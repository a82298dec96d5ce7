"""Uploads as raw bytes: forms as clients of other languages write them, and what is malformed."""
import http.client
import json

import pytest

CRLF = b"\r\n"
LINES = b'{"custom_id": "a"}\r\n--\r\n\r\n' + bytes(range(256)) + b"\r\n--Xb"


def form_of(*parts, boundary=b"XbX", end=b"--\r\n"):
    """A form of pairs of headers and content."""
    text = b"".join(b"--" + boundary + CRLF + head.encode("latin-1") + CRLF + CRLF + value + CRLF
                    for head, value in parts)
    return text + b"--" + boundary + end


def send(place, body, kind="multipart/form-data; boundary=XbX", piece=None):
    """The status and the answer; with `piece`, in chunks of so many bytes."""
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=60)
    try:
        chunks = piece and (body[i:i + piece] for i in range(0, len(body), piece))
        connection.request("POST", "/v1/files", chunks or body, {"Content-Type": kind},
                           encode_chunked=bool(piece))
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def named(**names):
    return "Content-Disposition: form-data; " + "; ".join(f"{k}={v}" for k, v in names.items())


PURPOSE = (named(name='"purpose"'), b"batch")
FILE = (named(name='"file"', filename='"lines.jsonl"'), LINES)


def dotnet(disposition):
    """MultipartFormDataContent: names without quotes, and the boundary in quotes."""
    boundary = b"7c3a6e0f-6b6d-4c6e-9d3c-0f0b6a1f2e4d"
    body = form_of(("Content-Type: text/plain; charset=utf-8\r\n" + named(name="purpose"),
                    b"batch"), (disposition, LINES), boundary=boundary)
    return body, f'multipart/form-data; boundary="{boundary.decode()}"'


def apache(head_end):
    """Apache's HttpClient: a character set beside the boundary, and encodings of the parts."""
    more = "\r\nContent-Transfer-Encoding: "
    body = form_of(
        (PURPOSE[0] + "\r\nContent-Type: text/plain; charset=ISO-8859-1" + more + "8bit", b"batch"),
        (FILE[0] + "\r\nContent-Type: application/octet-stream" + more + "binary", LINES))
    return body, "multipart/form-data; " + head_end


ENCODED = '"=?utf-8?B?bGluZXMgw6kuanNvbmw=?="'  # .NET's, beside the name that counts
CLIENTS = {
    "dotnet": (*dotnet(named(name="file", filename="lines.jsonl")), "lines.jsonl"),
    "dotnet with both names": (
        *dotnet(named(name="file", filename=ENCODED, **{
            "filename*": "utf-8''lines%20%C3%A9.jsonl"})), "lines \u00e9.jsonl"),
    "apache": (*apache("boundary=XbX; charset=utf-8"), "lines.jsonl"),
    "apache, the boundary last": (*apache("charset=ISO-8859-1; boundary=XbX"), "lines.jsonl"),
    "capitals": (form_of(PURPOSE, FILE).replace(b"Content-Disposition", b"CONTENT-disposition"),
                 "Multipart/Form-Data ; Boundary=XbX", "lines.jsonl"),
    "a boundary of one letter": (form_of(PURPOSE, FILE, boundary=b"q"),
                                 "multipart/form-data; boundary=q", "lines.jsonl"),
    "only filename*": (
        form_of(PURPOSE, (named(name='"file"', **{"filename*": "iso-8859-1'en'%e9"}), LINES)),
        "multipart/form-data; boundary=XbX", "\u00e9"),
    "name= in the filename": (
        form_of(PURPOSE, (named(filename='"x name=zzz"', name='"file"'), LINES)),
        "multipart/form-data; boundary=XbX", "x name=zzz"),
    "escapes": (form_of(PURPOSE, (named(name='"file"', filename=r'"a\"b\\c\d%22.jsonl"'), LINES)),
                "multipart/form-data; boundary=XbX", r'a"b\c\d%22.jsonl'),
    "text around the form": (b"Hello\r\n--Xb\r\n" + form_of(PURPOSE, FILE) + b"--XbX\r\nBye",
                             "multipart/form-data; boundary=XbX", "lines.jsonl"),
}


@pytest.mark.parametrize("piece", [None, 7])
@pytest.mark.parametrize("name", CLIENTS)
def test_forms_of_other_clients(place, client, name, piece):
    body, kind, filename = CLIENTS[name]
    status, answer = send(place, body, kind, piece)
    assert status == 200, answer
    assert (answer["filename"], answer["bytes"]) == (filename, len(LINES))
    assert client.files.content(answer["id"]).read() == LINES


WHOLE = form_of(PURPOSE, FILE)
LONG = ("X: " + "x" * 20_000 + "\r\n" + FILE[0], LINES)
MALFORMED = {
    "cut in the content": (WHOLE[:-20], "cut short at byte "),
    "cut in the delimiter": (WHOLE[:-4], "cut short at byte "),
    "no delimiter": (b"purpose=batch", "no line that begins with --XbX"),
    "LF alone": (WHOLE.replace(CRLF, b"\n"), "a delimiter goes on behind it"),
    "no Content-Disposition": (form_of(PURPOSE, ("X: y", LINES)), "no header Content-Disposition"),
    "no name": (form_of(PURPOSE, (named(filename="x"), LINES)), "no form-data with a name"),
    "an open quote": (form_of(PURPOSE, (named(name='"file'), LINES)), "no closing quote"),
    "two names": (form_of((named(name="file") + "; name=purpose", LINES)), "comes twice"),
    "base64": (form_of(PURPOSE, (FILE[0] + "\r\nContent-Transfer-Encoding: base64", b"cXE=")),
               "Content-Transfer-Encoding"),
    "an unknown character set": (
        form_of(PURPOSE, (named(name="file", **{"filename*": "koi8-r''a"}), LINES)),
        "neither UTF-8 nor ISO-8859-1"),
    "long headers": (form_of(PURPOSE, LONG), "more than the 16384 bytes"),
    "a line like the delimiter": (form_of(PURPOSE, (FILE[0], b"a\r\n--XbX--b\r\n")),
                                  "the last delimiter goes on"),
    "several files": (form_of(PURPOSE, FILE, FILE), "the form has several"),
    "several files, one empty": (form_of(PURPOSE, (FILE[0], b""), FILE), "the form has several"),
    "a field twice": (form_of(PURPOSE, PURPOSE, FILE), "the form has a field twice"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_malformed_is_refused(place, client, name):
    body, message = MALFORMED[name]
    for piece in (None, 5):
        status, answer = send(place, body, piece=piece)
        assert status == 400 and message in answer["error"]["message"], answer
        assert answer["error"]["hint"], answer
    assert not client.files.list().data


@pytest.mark.parametrize("kind, message", [
    ("multipart/form-data", "names no boundary"),
    ("multipart/form-data; boundary=", "no token"),
    ("multipart/form-data; boundary=a; Boundary=b", "comes twice"),
    ("multipart/form-data; boundary=" + "x" * 71, "longer than 70"),
    ("multipart/mixed; boundary=XbX", "the body is no form"),
    ("application/x-www-form-urlencoded", "the body is no form")])
def test_types_that_are_none_of_a_form(place, kind, message):
    status, answer = send(place, WHOLE, kind)
    assert status == 400 and message in answer["error"]["message"], answer
