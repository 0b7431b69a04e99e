"""Predictions of step time after a change, on this GPU or another GPU, with more ranks or another batch size."""

from hotline_analysis.prediction.asked import whatif
from hotline_analysis.prediction.engine.edits import Fuse, Gap, Insert, Move, Remove, Scale, Take, Unwait
from hotline_analysis.prediction.engine.predict import Prediction, Scenario
from hotline_analysis.prediction.studies.all_gpus import on_gpu
from hotline_analysis.prediction.studies.backward import backward_chain
from hotline_analysis.prediction.studies.batch import BatchScaling, batch_scaling
from hotline_analysis.prediction.studies.checkpoint import recomputation
from hotline_analysis.prediction.studies.scaling import bucket_sizes, data_parallel_scaling
from hotline_analysis.prediction.studies.sharing import share_gpu

__all__ = [
    "BatchScaling",
    "Fuse",
    "Gap",
    "Insert",
    "Move",
    "Prediction",
    "Remove",
    "Scale",
    "Scenario",
    "Take",
    "Unwait",
    "backward_chain",
    "batch_scaling",
    "bucket_sizes",
    "data_parallel_scaling",
    "on_gpu",
    "recomputation",
    "share_gpu",
    "whatif",
]
