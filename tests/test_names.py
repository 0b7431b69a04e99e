"""The public names of the package, and what naming them costs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hotline_analysis as ha
from docs import generate_api
from hotline_analysis import catalog

PACKAGE = Path(ha.__file__).parent
EVERY = {*generate_api.MODULES, *(name for names in generate_api.public_names().values() for name in names)}
DEMO = ha.load(ha.demo_trace())


def test_no_public_name_is_that_of_a_module() -> None:
    """To import a module sets it as an attribute of its package, where it would hide the function."""
    modules = {path.name.removesuffix(".py") for path in PACKAGE.iterdir()}
    public = {"answers", "charts", "memory", "predict"}
    assert modules & EVERY == modules & set(ha.__all__) == public, "a name is hidden once its module is imported"
    in_answers = {path.name.removesuffix(".py") for path in (PACKAGE / "answers").iterdir()}
    assert not in_answers & set(ha.answers.__all__)


def test_few_names_are_shown_and_all_are_importable() -> None:
    assert dir(ha) == sorted(ha.__all__)
    assert len(ha.__all__) <= 26
    assert set(ha.__all__) <= EVERY | {"__version__"}
    tree = ast.parse((PACKAGE / "__init__.pyi").read_text("utf-8"))
    (shown,) = (ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign))
    assert sorted(shown) == sorted(ha.__all__)
    for name in EVERY:
        assert getattr(ha, name) is not None


def test_each_name_is_in_its_module() -> None:
    answers = {name for module, names in generate_api.public_names().items() if "answers." in module for name in names}
    assert set(dir(ha.answers)) == answers
    predictions = {name for module, names in generate_api.PUBLIC.items() if "prediction." in module for name in names}
    assert set(ha.predict.__all__) == predictions
    on_memory = {query.name for query in catalog.queries("answers") if query.folder.endswith("memory")}
    assert set(ha.memory.__all__) == on_memory | {"encodings_total", "recomputation"}
    assert ha.answers.slowest_ops(DEMO, limit=1).equals(ha.slowest_ops(DEMO, limit=1))


def test_an_answer_in_its_module_takes_a_trace() -> None:
    with pytest.raises(TypeError, match="slowest_ops takes a Trace, not str"):
        ha.answers.slowest_ops("run.hotline")  # type: ignore[arg-type]


def test_a_chart_takes_a_trace_or_a_frame() -> None:
    from_frame = ha.charts.phases(ha.phases(DEMO, rank=0)).to_dict()
    from_trace = ha.charts.phases(DEMO, rank=0).to_dict()  # type: ignore[arg-type, call-arg]
    assert from_trace["title"] == from_frame["title"]
    assert from_trace["datasets"] == from_frame["datasets"]


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
