"""An engine starts itself a few times to compile programs with drivers that compile one at a time
in a process. The messages are those of engine/core/device/program_helper.hpp."""
import socket
import struct
import subprocess

from programs import BIN


def send(to, *texts):
    for text in texts:
        to.sendall(struct.pack("<Q", len(text)) + text)


def receive(stream):
    return stream.read(struct.unpack("<Q", stream.read(8))[0])


def test_an_engine_compiles_for_another(tmp_path):
    ours, theirs = socket.socketpair()
    helper = subprocess.Popen([BIN / "millrace-engine", "--compile-programs"], stdin=theirs)
    theirs.close()
    answers = ours.makefile("rb")
    send(ours, b"", str(tmp_path).encode())
    send(ours, b"doubles", b"no", b"__kernel void f(__global int *x) { x[0] *= 2; }")
    assert receive(answers) == b"yes"
    assert [path.name[:8] for path in tmp_path.iterdir()] == ["doubles-"]
    send(ours, b"broken", b"no", b"__kernel void f() { nonsense }")
    assert receive(answers) == b"no"
    send(ours, b"another", b"no", b"__kernel void f(__global int *x) { x[0] *= 3; }")
    assert receive(answers) == b"yes"
    answers.close()
    ours.close()
    assert helper.wait() == 0
