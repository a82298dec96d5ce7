"""Runs the kernels of both families in oclgrind, which reports every access outside a buffer and
every data race. Whole layers do not run there, because they need memory shared with the host."""
import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("MILLRACE_BUILD", ROOT / "build"))


def run(program, pattern, log, *options, variant="cpu"):
    assert shutil.which("oclgrind"), "oclgrind is missing: run ops/setup --tests"
    # oclgrind's device is not a CPU; the variant makes it run the kernels for CPUs. Its cache
    # folder keeps compiled programs for the next test and the next run.
    environment = dict(os.environ, XDG_CACHE_HOME=str(BUILD.resolve() / "oclgrind-cache"),
                       MILLRACE_TEST_VARIANT=variant)
    return subprocess.run(
        ["oclgrind", "--data-races", "--log", str(log), str(BUILD / "tests" / program),
         f"--gtest_filter={pattern}", *options],
        env=environment, capture_output=True, text=True)


def test_oclgrind_detects_a_bad_write(tmp_path):
    log = tmp_path / "log"
    run("kernels_test", "*WritesOutsideItsBuffer", log, "--gtest_also_run_disabled_tests")
    assert "Invalid write of size 4" in log.read_text()


def test_elementwise_kernels_stay_in_bounds(tmp_path):
    log = tmp_path / "log"
    result = run("kernels_test", "*RowItems*:Embed*:*Rope*:Quantize*", log)
    assert result.returncode == 0, result.stdout[-3000:]
    assert log.read_text() == ""


def test_groups_that_share_a_row_of_logits_stay_in_bounds(tmp_path):
    """Apart from GPUs, only here does the sampler run with more than one work-item per row."""
    log = tmp_path / "log"
    result = run("sampler_test", "*EditedRows.AGroup*/0:*SamplerVariants.NothingLeft*/0", log,
                 variant="generic")
    assert result.returncode == 0, result.stdout[-3000:]
    assert "[  PASSED  ] 3 tests" in result.stdout and "SKIPPED" not in result.stdout
    assert log.read_text() == ""


@pytest.mark.long
@pytest.mark.parametrize("program, variant, pattern", [
    ("kernels_test", "cpu", "Types/MatmulTest*:*IntegerMatmul*Q4_1:*IntegerMatmul*Q6_K"),
    ("kernels_test", "cpu", "Experts.InSeveral*:ExpertsRouter.Equal*"),
    # Attention in wide vectors takes too long in oclgrind.
    ("kernels_test", "generic", "*Attention*80x5x1"),
    ("sampler_test", "generic", "*SamplerVariants.Banned*/0:*SamplerVariants.MinusInfinity*/0:"
                                "*SamplerVariants.NotANumber*/0:*EditedRows.State*/0"),
    ("model_test", "generic", "*WeightsInManySmallBuffersGiveTheSameBits*:Model.IdsFromTheDevice*"),
])
def test_products_attention_and_model_stay_in_bounds(tmp_path, program, variant, pattern):
    log = tmp_path / "log"
    result = run(program, pattern, log, variant=variant)
    assert result.returncode == 0, result.stdout[-3000:]
    assert log.read_text() == ""
