"""`millrace convert` as a user runs it: the file that it writes, and every reason to refuse."""
import json
import os
import signal
import subprocess
import sys

import gguf
import numpy as np
import pytest
import quantized_models
from patience import PATIENCE_S
from programs import BIN, completion, millrace, program

MIB = 1024 * 1024
SMALL_DISK = BIN.parent / "tests/libsmall_disk.so"
OWN_KEYS = {"general.file_type", "general.quantization_version"}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return quantized_models.write("tied", tmp_path_factory.mktemp("convert") / "source.gguf")


def fields(path):
    """Key -> value of the metadata, in the file's order."""
    return {key: field.contents() for key, field in gguf.GGUFReader(path).fields.items()
            if not key.startswith("GGUF.")}


def refused(code, *words, exit_code=3):
    done = millrace("convert", *words, "--json")
    assert (done.returncode, done.stdout) == (exit_code, ""), done.stderr
    error = json.loads(done.stderr.splitlines()[-1])
    assert error["code"] == code and error["hint"], error
    return error["message"] + " " + error["hint"]


@pytest.fixture(scope="module")
def f16(model, tmp_path_factory):
    """The test model, decoded."""
    path = tmp_path_factory.mktemp("model") / "f16.gguf"
    done = millrace("convert", model, "-o", path, "-t", "F16", "--allow-requantize")
    assert done.returncode == 0, done.stderr
    return path


def test_a_converted_model_runs_and_says_the_same(model, f16, tmp_path):
    small = tmp_path / "q4_k_m.gguf"
    assert millrace("convert", f16, "-o", small, "--type", "q4_k_m").returncode == 0
    assert small.stat().st_size < f16.stat().st_size / 2
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text(completion("a", "The capital of France is", max_tokens=4, temperature=0) + "\n")
    for number, path in enumerate((model, f16, small)):
        results = tmp_path / f"results-{number}.jsonl"
        done = millrace("run", "--model", path, "-i", jobs, "-o", results)
        assert done.returncode == 0, done.stderr
        body = json.loads(results.read_text())["response"]["body"]
        assert "Paris" in body["choices"][0]["text"]


def test_a_decoded_model_encoded_again_has_the_bytes_that_it_had(model, f16, tmp_path):
    """The halves of Q4_1 blocks and their products are not all halves, so F32 lies between."""
    f32, again = tmp_path / "f32.gguf", tmp_path / "q4_1.gguf"
    assert millrace("convert", model, "-o", f32, "-t", "F32", "--allow-requantize").returncode == 0
    assert millrace("convert", f32, "-o", again, "-t", "Q4_1").returncode == 0
    assert list(fields(again)) == list(fields(model))
    assert {k: v for k, v in fields(again).items() if k not in OWN_KEYS} == \
        {k: v for k, v in fields(model).items() if k not in OWN_KEYS}
    before = {tensor.name: tensor for tensor in gguf.GGUFReader(model).tensors}
    decoded = {tensor.name: tensor.data for tensor in gguf.GGUFReader(f32).tensors}
    for tensor in gguf.GGUFReader(again).tensors:
        values = gguf.quants.dequantize(before[tensor.name].data, before[tensor.name].tensor_type)
        assert np.array_equal(decoded[tensor.name], values), tensor.name
        if tensor.tensor_type == gguf.GGMLQuantizationType.F32:
            assert np.array_equal(tensor.data, before[tensor.name].data)


@pytest.mark.memory
def test_memory_is_bounded_beside_the_mapped_file(f16, tmp_path):
    """The file's pages count while they are mapped; the system can take them back."""
    # A small process measures: a child of this process would inherit its peak.
    measure = ("import resource, subprocess, sys; "
               "quiet = {'stdout': subprocess.DEVNULL, 'stderr': subprocess.DEVNULL}; "
               "code = subprocess.run(sys.argv[1:], **quiet).returncode; "
               "print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    done = subprocess.run([sys.executable, "-c", measure, program("millrace"), "convert", f16, "-o",
                           tmp_path / "out.gguf", "-t", "Q4_K_M", "--cores", "8"], text=True,
                          capture_output=True, timeout=PATIENCE_S, check=True)
    code, peak_kib = map(int, done.stdout.split())
    assert code == 0
    assert peak_kib * 1024 - f16.stat().st_size < 100 * MIB, f"{peak_kib} KiB"


def test_progress_and_summary_are_told(source, tmp_path):
    out = tmp_path / "out.gguf"
    done = millrace("convert", source, "-o", out, "-t", "q8_0")
    lines = done.stderr.splitlines()
    count = len(gguf.GGUFReader(source).tensors)
    assert len(lines) == count
    assert lines[0].startswith(
        f"millrace: tensor 1 of {count}, token_embd.weight, F32 to Q8_0; ")
    assert lines[1].startswith(f"millrace: tensor 2 of {count}, output_norm.weight, stays F32; ")
    assert done.stdout.startswith(f"{out}: {count} tensors, Q8_0, ")
    done = millrace("convert", source, "-o", out, "-t", "Q8_0", "--force", "--json")
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert [event["number"] for event in events] == list(range(1, count + 1))
    summary = json.loads(done.stdout)
    assert summary["file_bytes"] == out.stat().st_size == events[-1]["bytes"]
    assert summary["type"] == "Q8_0" and summary["tensors"] == count
    assert 8.5 <= summary["bits_per_weight"] < 9


def test_a_split_model_becomes_one_file(source, tmp_path):
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(tmp_path / "part.gguf", "qwen3", split_max_tensors=40)
    for key, field in reader.fields.items():
        if not key.startswith("GGUF.") and key != "general.architecture":
            writer.add_key_value(key, field.contents(), field.types[0])
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    parts = sorted(tmp_path.glob("part-*.gguf"))
    assert len(parts) > 2
    whole, joined = tmp_path / "whole.gguf", tmp_path / "joined.gguf"
    assert millrace("convert", source, "-o", whole, "-t", "Q5_K").returncode == 0
    assert millrace("convert", parts[0], "-o", joined, "-t", "Q5_K").returncode == 0
    assert joined.read_bytes() == whole.read_bytes()
    assert "would overwrite" in refused("usage", parts[0], "-o", parts[1], "-t", "F16", "--force",
                                        exit_code=2)


def test_the_command_line_is_checked_before_anything_is_written(source, tmp_path):
    out = tmp_path / "out.gguf"
    said = refused("usage", source, "-o", out, "-t", "Q9", exit_code=2)
    assert "Q9" in said and "F32, F16, BF16, Q8_0" in said and "Q2_K" in said
    refused("usage", source, "-o", out, exit_code=2)
    refused("usage", source, "-o", "-", "-t", "F16", exit_code=2)
    assert "would overwrite" in refused("usage", source, "-o", source, "-t", "F16", "--force",
                                        exit_code=2)
    link = tmp_path / "link.gguf"
    link.symlink_to(source)
    refused("usage", source, "-o", link, "-t", "F16", "--force", exit_code=2)
    assert "not a regular file" in refused("conflict", source, "-o", tmp_path, "-t", "F16",
                                           "--force")
    assert f"there is no folder {tmp_path}/no/folder for the output make it" in refused(
        "not_found", source, "-o", tmp_path / "no/folder/x.gguf", "-t", "F16")
    assert "/nowhere" in refused("gguf_unreadable", "/nowhere.gguf", "-o", out, "-t", "F16")
    assert list(tmp_path.iterdir()) == [link]


def test_an_output_that_exists_is_replaced_only_with_force(source, tmp_path):
    out = tmp_path / "out.gguf"
    out.write_text("precious")
    assert "--force" in refused("conflict", source, "-o", out, "-t", "F16")
    assert out.read_text() == "precious"
    assert millrace("convert", source, "-o", out, "-t", "F16", "--force").returncode == 0
    assert out.read_bytes()[:4] == b"GGUF" and list(tmp_path.iterdir()) == [out]
    umask = os.umask(0)
    os.umask(umask)
    assert out.stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_quantized_model_is_converted_only_when_asked(model, tmp_path):
    out = tmp_path / "out.gguf"
    said = refused("conflict", model, "-o", out, "-t", "Q8_0")
    assert "is quantized as Q4_1 already" in said and "--allow-requantize" in said
    assert not out.exists()


def test_a_number_that_is_not_finite_is_named(source, tmp_path):
    raw = bytearray(source.read_bytes())
    tensor = next(t for t in gguf.GGUFReader(source).tensors if t.name == "blk.3.ffn_up.weight")
    at = tensor.data_offset + 256 * 4 * 2 + 12
    raw[at:at + 4] = np.float32(np.inf).tobytes()
    bad, out = tmp_path / "bad.gguf", tmp_path / "out.gguf"
    bad.write_bytes(raw)
    said = refused("gguf_malformed", bad, "-o", out, "-t", "Q4_K")
    assert f"{bad}: tensor 'blk.3.ffn_up.weight', row 2, holds a number that is not finite" in said
    assert list(tmp_path.iterdir()) == [bad]


def test_a_full_disk_says_what_is_needed_and_keeps_the_old_file(source, tmp_path):
    assert SMALL_DISK.exists(), f"{SMALL_DISK} is missing: build the target small_disk"
    folder, size = tmp_path / "disk", tmp_path / "size"
    folder.mkdir()
    out = folder / "out.gguf"
    out.write_text("old")
    size.write_text("5000\n")
    done = millrace("convert", source, "-o", out, "-t", "F16", "--force", env={
        **os.environ, "LD_PRELOAD": str(SMALL_DISK), "SMALL_DISK_FOLDER": str(folder),
        "SMALL_DISK_BYTES": str(size), "ASAN_OPTIONS": "verify_asan_link_order=0"})
    assert done.returncode == 3
    assert "disk_full" in done.stderr and f"{out} needs " in done.stderr, done.stderr
    assert list(folder.iterdir()) == [out] and out.read_text() == "old"


def test_a_signal_stops_it_and_leaves_nothing(f16, tmp_path):
    out = tmp_path / "out.gguf"
    process = subprocess.Popen([program("millrace"), "convert", f16, "-o", out, "-t", "Q2_K",
                                "--cores", "1"], stderr=subprocess.PIPE, text=True)
    assert process.stderr.readline().startswith("millrace: tensor 1 of ")
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130 and "interrupted" in error
    assert list(tmp_path.iterdir()) == []
