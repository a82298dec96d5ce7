"""What `speed` and `profile` measure: of the test model, or of the file that `--model` names."""
import dataclasses
import pathlib

from . import profile, shapes, sides, verdict
from .run import ROOT, Failed, last_line
from .shapes import LLAMA_FILE, OPENVINO_FILE, OURS

# The models that have a name, and the command that makes or downloads each.
NAMED = {"qwen3-0.6b": "bench/make_model", "qwen3-30b-a3b": "bench/make_model",
         "qwen3.5-0.8b": "bench/make_model", "lfm2-1.2b": "bench/make_model",
         "gemma4-e2b": "bench/make_model",
         "gemma-3-270m": "ops/model"}


def file_of(given):
    """The path of the model file that `--model` gives by name or path."""
    if given in NAMED:
        return pathlib.Path(last_line([ROOT / NAMED[given], given]))
    path = pathlib.Path(given).expanduser().resolve()
    if not path.is_file():
        raise Failed(f"--model {given}: there is no such file; give the path of a GGUF file, or "
                     f"one of the names {', '.join(NAMED)}")
    return path


def required(what, shape, speed, llama):
    return verdict.Required(what, shape, speed, llama, 1.2, LLAMA_FILE, (OPENVINO_FILE,))


# Between 1 row and 64, 8 rows have to do what 1 row does.
FILE_ROWS = [required("prompt, 8 rows of 128", shapes.FILE_EIGHT, "prompt", 3.0),
             required("prompt, 8 rows of 512", shapes.FILE_LONGER, "prompt", 3.0),
             required("generated, 64 rows, context 256", shapes.FILE_FULL, "generate", 4.0),
             required("generated, 8 rows", shapes.FILE_EIGHT, "generate", 1.3),
             required("generated, 1 row", shapes.FILE_ONE, "generate", 1.3)]
# Room for 64 rows of any of these models: as much as openvino_run.py gives OpenVINO.
KV_MEMORY = "4GiB"
FILE_SIDES = {OURS: lambda model: sides.Ours(None, model, KV_MEMORY),
              LLAMA_FILE: lambda model: sides.Llama(None, model),
              OPENVINO_FILE: lambda model: sides.OpenVino(None, "f16", model)}


@dataclasses.dataclass(frozen=True)
class Plan:
    make: object     # (side's name, model) -> side
    rows: list       # what is required
    shapes: list
    quick: list      # with --quick
    judged: list     # with --judged
    profiled: list
    profiled_quick: list
    name: str = ""   # of the model, if it is not the test model

    def chosen(self, given):
        return self.quick if given.quick else self.judged if given.judged else self.shapes


TEST_MODEL = Plan(sides.make, verdict.ROWS, shapes.SHAPES, shapes.QUICK, shapes.JUDGED,
                  profile.SHAPES, profile.QUICK)


def of_file(path):
    """The plan for the file that `--model` names, beside the peers that read it."""
    profiled = [shapes.Shape(rows, 128, 33) for rows in (1, 8, 64)]
    return Plan(lambda name, model: FILE_SIDES[name](model), FILE_ROWS, shapes.FILE_SHAPES,
                shapes.FILE_QUICK, shapes.FILE_SHAPES, profiled, profiled[1:2], path.stem)
