"""Public functions that share their names with modules of the package, whatever is imported first."""

import subprocess
import sys

import pytest

SAME_NAME = {"analyze": "capture.handler", "annotate": "capture.region", "report": "report.build"}


@pytest.mark.parametrize(
    "first",
    [
        "pass",
        "import hotline_analysis.{name}",
        "from hotline_analysis.{name} import __name__ as module",
        "ha.{name}; import hotline_analysis.{name}",
        "import hotline_analysis.cli; ha.load; import hotline_analysis.{name}",
    ],
)
def test_the_function_wins(first: str) -> None:
    lines = [f"{first.format(name=name)}; print(ha.{name}.__module__)" for name in SAME_NAME]
    code = "\n".join(["import hotline_analysis as ha", *lines])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [f"hotline_analysis.{home}" for home in SAME_NAME.values()]


def test_naming_the_capture_needs_no_torch() -> None:
    code = "import sys, hotline_analysis as ha; ha.analyze, ha.annotate, ha.model_ops; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_without_torch_the_error_says_what_to_install() -> None:
    code = """
import sys
sys.modules["torch"] = None
import hotline_analysis as ha
for call in (lambda: ha.analyze(None), lambda: ha.model_ops(None), lambda: ha.annotate("a").__enter__()):
    try:
        call()
    except ha.HotlineError as error:
        print(error.hint)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["Install it: pip install 'hotline-analysis[torch]'."] * 3
