"""llama.cpp's quantizer by ctypes, from the prebuilt library that bench/llama.sh --library fetches:
the ecosystem's encoders of blocks, and its choice of a type for each tensor."""
import ctypes
import functools
import pathlib
import subprocess

import gguf
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]


class Parameters(ctypes.Structure):
    """llama_model_quantize_params; the rest of it is left as the library's defaults have it."""
    _fields_ = [("nthread", ctypes.c_int32), ("ftype", ctypes.c_int32),
                ("output_tensor_type", ctypes.c_int32), ("token_embedding_type", ctypes.c_int32),
                ("allow_requantize", ctypes.c_bool), ("rest", ctypes.c_byte * 256)]


@functools.cache
def _folder():
    done = subprocess.run([ROOT / "bench/llama.sh", "--library"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return pathlib.Path(done.stdout.splitlines()[-1])


@functools.cache
def _library(name):
    return ctypes.CDLL(str(_folder() / name), mode=ctypes.RTLD_GLOBAL)


def blocks(values, kind):
    """The blocks of float32 rows, as bytes, without weights of importance."""
    values = np.ascontiguousarray(values, np.float32)
    rows, columns = values.shape
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    out = np.zeros(values.size // elements * size, np.uint8)
    quantize = _library("libggml-base.so").ggml_quantize_chunk
    quantize.restype = ctypes.c_size_t
    quantize.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64,
                         ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    assert quantize(int(kind), values.ctypes.data, out.ctypes.data, 0, rows, columns,
                    None) == out.size
    return out


def quantize(source, target, file_type, allow_requantize=False):
    """Writes a file of the type, of which gguf.LlamaFileType has the numbers."""
    for name in ("libggml-base.so", "libggml.v0.5.0.so"):
        _library(name)
    library = _library("libllama.v0.5.0.so")
    library.llama_model_quantize_default_params.restype = Parameters
    library.llama_model_quantize.argtypes = [ctypes.c_char_p, ctypes.c_char_p,
                                             ctypes.POINTER(Parameters)]
    parameters = library.llama_model_quantize_default_params()
    parameters.ftype = int(file_type)
    parameters.allow_requantize = allow_requantize
    assert library.llama_model_quantize(str(source).encode(), str(target).encode(),
                                        ctypes.byref(parameters)) == 0
