"""Four small but real models, each with synthetic data and a loss, for the capture script.

They keep the structure that makes real traces interesting (residual branches, attention, packed sequences, embedding
tables) at sizes that train in milliseconds on a CPU. The data is random: nothing is learnt, only timed.
"""

# Checked with torch installed and without: then everything from torch is Any.
# mypy: disallow-subclassing-any=False, warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.checkpoint import checkpoint
from torch.utils.data import Dataset

Batch = tuple[tuple[Tensor, ...], tuple[Tensor, ...]]
"""The model's inputs, and what the loss compares its output with."""


@dataclass(frozen=True)
class Example:
    """Everything a training loop needs; `loss(output, *targets)` returns a scalar."""

    model: nn.Module
    dataset: Dataset[Any]
    collate: Callable[[list[Any]], Batch]
    loss: Callable[..., Tensor]


def run_block(block: nn.Module, x: Tensor, recompute: bool) -> Tensor:
    """Call `block(x)`; with `recompute`, drop its activations and run it again during backward."""
    if recompute and torch.is_grad_enabled():
        return checkpoint(block, x, use_reentrant=False)
    return block(x)


# --- cnn: a residual network with downsample branches -----------------------------------------------------------------


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with batch norm, plus a 1x1 convolution on the skip path where the shape changes."""

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module | None = None
        if stride != 1 or in_channels != channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(in_channels, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        skip = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return self.relu(y + skip)


class ResidualCNN(nn.Module):
    """A stem, two stages of residual blocks, and a linear classifier."""

    def __init__(self, width: int = 16, classes: int = 10, recompute: bool = False) -> None:
        super().__init__()
        self.recompute = recompute
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.layer1 = nn.Sequential(ResidualBlock(width, width, 1), ResidualBlock(width, width, 1))
        self.layer2 = nn.Sequential(ResidualBlock(width, 2 * width, 2), ResidualBlock(2 * width, 2 * width, 1))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(2 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.stem(images)
        x = run_block(self.layer1, x, self.recompute)
        x = run_block(self.layer2, x, self.recompute)
        return self.fc(self.pool(x).flatten(1))


class Images(Dataset[tuple[Tensor, Tensor]]):
    """Random 3x32x32 images with one of ten labels."""

    def __init__(self, size: int) -> None:
        self.images = torch.randn(size, 3, 32, 32)
        self.labels = torch.randint(0, 10, (size,))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.images[index], self.labels[index]


def collate_pairs(samples: list[tuple[Tensor, Tensor]]) -> Batch:
    """Stack (input, target) pairs."""
    inputs, targets = zip(*samples, strict=True)
    return (torch.stack(inputs),), (torch.stack(targets),)


# --- transformer: a causal language model -----------------------------------------------------------------------------


class SelfAttention(nn.Module):
    """Causal multi-head self-attention."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, dim = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, dim // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(batch, length, dim))


class EncoderLayer(nn.Module):
    """A pre-norm Transformer layer: attention, then a two-layer MLP, each with a residual connection."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = SelfAttention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attn(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class TransformerLM(nn.Module):
    """Token and position embeddings, `depth` encoder layers, and a linear head over the vocabulary."""

    def __init__(
        self, vocab: int = 512, length: int = 32, dim: int = 64, depth: int = 3, recompute: bool = False
    ) -> None:
        super().__init__()
        self.recompute = recompute
        self.tokens = nn.Embedding(vocab, dim)
        self.positions = nn.Embedding(length, dim)
        self.layers = nn.ModuleList(EncoderLayer(dim, heads=4) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(positions)
        for layer in self.layers:
            x = run_block(layer, x, self.recompute)
        return self.head(self.norm(x))


class Sentences(Dataset[tuple[Tensor, Tensor]]):
    """Random token sequences; the target is the sequence shifted by one."""

    def __init__(self, size: int, vocab: int = 512, length: int = 32) -> None:
        self.tokens = torch.randint(0, vocab, (size, length + 1))

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        row = self.tokens[index]
        return row[:-1], row[1:]


def next_token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy over every position."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


# --- lstm: a small speech recogniser ----------------------------------------------------------------------------------


class SpeechLSTM(nn.Module):
    """Bidirectional LSTM over utterances of different lengths, with a per-frame character classifier."""

    def __init__(self, features: int = 40, hidden: int = 64, symbols: int = 29, recompute: bool = False) -> None:
        super().__init__()
        self.recompute = recompute
        self.frontend = nn.Sequential(nn.Linear(features, hidden), nn.LayerNorm(hidden), nn.ReLU())
        self.lstm = nn.LSTM(hidden, hidden, batch_first=True, bidirectional=True)
        self.classifier = nn.Linear(2 * hidden, symbols)

    def forward(self, frames: Tensor, lengths: Tensor) -> Tensor:
        x = run_block(self.frontend, frames, self.recompute)
        # The lengths stay on the CPU: packing needs them there, and a copy back would block on the GPU.
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        y, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.classifier(y).log_softmax(-1)


class Utterances(Dataset[tuple[Tensor, Tensor]]):
    """Random feature frames (10 to 16 of 40 values) with a transcript of 4 symbols.

    Short, because the CPU runs an LSTM as one operator after the other for each frame: the trace grows with the length.
    """

    def __init__(self, size: int) -> None:
        lengths = torch.randint(10, 17, (size,)).tolist()
        self.frames = [torch.randn(length, 40) for length in lengths]
        self.transcripts = torch.randint(1, 29, (size, 4))

    def __len__(self) -> int:
        return len(self.frames)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.frames[index], self.transcripts[index]


def collate_utterances(samples: list[tuple[Tensor, Tensor]]) -> Batch:
    """Pad the frames to the longest utterance and keep the true lengths."""
    frames, transcripts = zip(*samples, strict=True)
    lengths = torch.tensor([len(utterance) for utterance in frames])
    return (pad_sequence(list(frames), batch_first=True), lengths), (torch.stack(transcripts), lengths)


def ctc_loss(log_probs: Tensor, transcripts: Tensor, lengths: Tensor) -> Tensor:
    """Connectionist temporal classification, the usual loss of speech recognisers."""
    target_lengths = torch.full_like(lengths, transcripts.shape[1])
    return F.ctc_loss(log_probs.transpose(0, 1), transcripts, lengths, target_lengths)


# --- dlrm: a recommender ----------------------------------------------------------------------------------------------


class DLRM(nn.Module):
    """Dense features through a bottom MLP, one EmbeddingBag per sparse feature, pairwise dot products, a top MLP."""

    def __init__(self, dense: int = 13, tables: int = 3, rows: int = 1000, dim: int = 16, recompute: bool = False):
        super().__init__()
        self.recompute = recompute
        self.bottom_mlp = nn.Sequential(nn.Linear(dense, 32), nn.ReLU(), nn.Linear(32, dim), nn.ReLU())
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, dim, mode="sum") for _ in range(tables))
        pairs = (tables + 1) * tables // 2
        self.top_mlp = nn.Sequential(nn.Linear(dim + pairs, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, dense: Tensor, indices: Tensor) -> Tensor:
        x = self.bottom_mlp(dense)
        features = torch.stack([x, *(bag(indices[:, i]) for i, bag in enumerate(self.tables))], dim=1)
        products = torch.bmm(features, features.transpose(1, 2))
        row, column = torch.tril_indices(products.shape[1], products.shape[2], offset=-1, device=dense.device)
        top = torch.cat([x, products[:, row, column]], dim=1)
        return run_block(self.top_mlp, top, self.recompute).squeeze(1)


class Clicks(Dataset[tuple[Tensor, Tensor, Tensor]]):
    """Random impressions: 13 dense values, 4 ids for each of 3 sparse features, clicked or not."""

    def __init__(self, size: int) -> None:
        self.dense = torch.randn(size, 13)
        self.indices = torch.randint(0, 1000, (size, 3, 4))
        self.clicked = torch.randint(0, 2, (size,)).float()

    def __len__(self) -> int:
        return len(self.clicked)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        return self.dense[index], self.indices[index], self.clicked[index]


def collate_clicks(samples: list[tuple[Tensor, Tensor, Tensor]]) -> Batch:
    """Stack the dense values, the ids and the labels."""
    dense, indices, clicked = zip(*samples, strict=True)
    return (torch.stack(dense), torch.stack(indices)), (torch.stack(clicked),)


# --- the choice -------------------------------------------------------------------------------------------------------


def cnn(samples: int, recompute: bool) -> Example:
    return Example(ResidualCNN(recompute=recompute), Images(samples), collate_pairs, F.cross_entropy)


def transformer(samples: int, recompute: bool) -> Example:
    return Example(TransformerLM(recompute=recompute), Sentences(samples), collate_pairs, next_token_loss)


def lstm(samples: int, recompute: bool) -> Example:
    return Example(SpeechLSTM(recompute=recompute), Utterances(samples), collate_utterances, ctc_loss)


def dlrm(samples: int, recompute: bool) -> Example:
    return Example(DLRM(recompute=recompute), Clicks(samples), collate_clicks, F.binary_cross_entropy_with_logits)


EXAMPLES: dict[str, Callable[[int, bool], Example]] = {
    "cnn": cnn,
    "transformer": transformer,
    "lstm": lstm,
    "dlrm": dlrm,
}
"""Model name → builder taking the number of samples and whether to checkpoint activations."""
