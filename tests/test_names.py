"""The public names of the package, and what naming them costs."""

import subprocess
import sys
from pathlib import Path

import hotline_analysis as ha

PACKAGE = Path(ha.__file__).parent


def test_no_public_name_is_that_of_a_module() -> None:
    """To import a module sets it as an attribute of its package, where it would hide the function."""
    modules = {path.name.removesuffix(".py") for path in PACKAGE.iterdir()}
    assert modules & set(ha.__all__) == {"charts"}, "a public name is hidden once its module is imported"


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
