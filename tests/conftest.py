"""Being here puts this folder on the path, so that tests can import `helpers`."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec

# One thread for each process: the matrices here are tiny, and threads of BLAS or PyTorch get in each other's way.
# To be set before NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Four virtual devices, so that spreading a batch over devices can be tested anywhere. Read when JAX is loaded.
# What is compiled here runs for milliseconds: compiling it well would take longer.
FLAGS = [
    "--xla_force_host_platform_device_count=4",
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
]
# XLA ends the process at a flag that it does not know, and these two, which more than halve the time of compiling, come
# and go with its versions.
if find_spec("jaxlib") and version("jaxlib").startswith("0.10."):
    FLAGS += ["--xla_cpu_use_fusion_emitters=false", "--xla_cpu_enable_concurrency_optimized_scheduler=false"]
os.environ.setdefault("XLA_FLAGS", " ".join(FLAGS))

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

pytest.register_assert_rewrite("helpers")

# A shell lets what runs in the background ignore Ctrl-C; tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Runs must not fail because a machine is slow, and every run must test the same examples.
settings.register_profile("auglag", deadline=None, derandomize=True, database=None)
settings.load_profile("auglag")


@pytest.fixture(scope="session", autouse=True)
def _libraries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Libraries that tests compile go to a folder of the test run, which its worker processes share."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    before = os.environ.get("AUGLAG_CACHE_DIR")
    os.environ["AUGLAG_CACHE_DIR"] = str(shared / "libraries")
    yield
    if before is None:
        del os.environ["AUGLAG_CACHE_DIR"]
    else:
        os.environ["AUGLAG_CACHE_DIR"] = before
