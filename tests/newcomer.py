"""A plugin that runs tests as on a newcomer's machine: without real traces, and with the packages of `make test` only.

python -m pytest -p tests.newcomer -m "traces and not long"
"""

import os
import sys

# What examples and tests can use, and the Makefile does not install.
_ABSENT = ("accelerate", "ipywidgets", "marimo", "mlflow", "tensorboard", "transformers", "wandb")

os.environ.pop("HOTLINE_TRACES", None)
for _name in _ABSENT:
    sys.modules[_name] = None  # type: ignore[assignment]  # importing the package now raises ModuleNotFoundError
