"""Eight real models and two simple ones, each with synthetic data and a loss, for the capture script.

They keep the structure that makes real traces interesting (residual branches, attention, packed sequences, embedding
tables, scatter ops, skip connections). The data is random: nothing is learnt, only timed. Each comes in three sizes:
`tiny` for small traces, `small` trains in milliseconds on a CPU, `large` is what people train on a GPU.
"""

# Also checked without torch installed; everything from torch is then Any.
# mypy: disallow-subclassing-any=False, warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.checkpoint import checkpoint
from torch.utils.data import Dataset

Size = Literal["tiny", "small", "large"]
Batch = tuple[tuple[Tensor, ...], tuple[Tensor, ...]]
"""Inputs of the model, and targets of the loss."""


@dataclass(frozen=True)
class Example:
    """Everything a training loop needs; `loss(output, *targets)` returns a scalar."""

    model: nn.Module
    dataset: Dataset[Any]
    collate: Callable[[list[Any]], Batch]
    loss: Callable[..., Tensor]


def run_block(block: nn.Module, x: Tensor, recompute: bool) -> Tensor:
    """Call `block(x)`. With `recompute`, drop the activations and run the block again during backward."""
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


class Bottleneck(nn.Module):
    """ResNet-50's block: 1x1 to fewer channels, 3x3, 1x1 to four times as many, plus the skip path."""

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        out_channels = 4 * channels
        self.conv1 = nn.Conv2d(in_channels, channels, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, out_channels, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out_channels)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module | None = None
        if stride != 1 or in_channels != out_channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, 1, stride, bias=False), nn.BatchNorm2d(out_channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        skip = x if self.downsample is None else self.downsample(x)
        return self.relu(y + skip)


class ResNet50(nn.Module):
    """ResNet with bottleneck blocks (He et al., 2016); with depths (3, 4, 6, 3) and width 64 it is ResNet-50."""

    def __init__(self, depths: Sequence[int], width: int, classes: int, recompute: bool = False) -> None:
        super().__init__()
        self.recompute = recompute
        self.conv1 = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.stages = nn.ModuleList()
        channels = width
        for stage, depth in enumerate(depths):
            blocks = []
            for block in range(depth):
                stride = 2 if stage and not block else 1
                blocks.append(Bottleneck(channels, width << stage, stride))
                channels = 4 * (width << stage)
            self.stages.append(nn.Sequential(*blocks))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        for stage in self.stages:
            x = run_block(stage, x, self.recompute)
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Images(Dataset[tuple[Tensor, Tensor]]):
    """Random square images of three colours, each with a label."""

    def __init__(self, size: int, pixels: int = 32, classes: int = 10) -> None:
        self.images = torch.randn(size, 3, pixels, pixels)
        self.labels = torch.randint(0, classes, (size,))

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

    def __init__(
        self, features: int = 40, hidden: int = 64, symbols: int = 29, layers: int = 1, recompute: bool = False
    ) -> None:
        super().__init__()
        self.recompute = recompute
        self.frontend = nn.Sequential(nn.Linear(features, hidden), nn.LayerNorm(hidden), nn.ReLU())
        self.lstm = nn.LSTM(hidden, hidden, layers, batch_first=True, bidirectional=True)
        self.classifier = nn.Linear(2 * hidden, symbols)

    def forward(self, frames: Tensor, lengths: Tensor) -> Tensor:
        x = run_block(self.frontend, frames, self.recompute)
        # The lengths stay on the CPU: packing needs them there, and a copy back would block on the GPU.
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        y, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.classifier(y).log_softmax(-1)


class Utterances(Dataset[tuple[Tensor, Tensor]]):
    """Random feature frames of different lengths, with a transcript of a few symbols.

    Short by default, because the CPU runs an LSTM as one operator after the other for each frame: the trace grows with
    the length.
    """

    def __init__(self, size: int, features: int = 40, shortest: int = 10, longest: int = 16, symbols: int = 4) -> None:
        lengths = torch.randint(shortest, longest + 1, (size,)).tolist()
        self.frames = [torch.randn(length, features) for length in lengths]
        self.transcripts = torch.randint(1, 29, (size, symbols))

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
    """Random impressions: 13 dense values, 4 ids for each sparse feature, clicked or not."""

    def __init__(self, size: int, tables: int = 3, rows: int = 1000) -> None:
        self.dense = torch.randn(size, 13)
        self.indices = torch.randint(0, rows, (size, tables, 4))
        self.clicked = torch.randint(0, 2, (size,)).float()

    def __len__(self) -> int:
        return len(self.clicked)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        return self.dense[index], self.indices[index], self.clicked[index]


def collate_clicks(samples: list[tuple[Tensor, Tensor, Tensor]]) -> Batch:
    """Stack the dense values, the ids and the labels."""
    dense, indices, clicked = zip(*samples, strict=True)
    return (torch.stack(dense), torch.stack(indices)), (torch.stack(clicked),)


# --- seq2seq: a translator --------------------------------------------------------------------------------------------


class Translator(nn.Module):
    """Transformer encoder and decoder out of torch's own layers, with the token embedding shared by both sides."""

    def __init__(self, vocab: int = 256, dim: int = 32, length: int = 16, depth: int = 2, recompute: bool = False):
        super().__init__()
        self.recompute = recompute
        self.tokens = nn.Embedding(vocab, dim)
        self.positions = nn.Parameter(torch.zeros(length, dim))
        self.encoder = nn.ModuleList(nn.TransformerEncoderLayer(dim, 2, 64, batch_first=True) for _ in range(depth))
        self.decoder = nn.ModuleList(nn.TransformerDecoderLayer(dim, 2, 64, batch_first=True) for _ in range(depth))
        self.head = nn.Linear(dim, vocab)

    def embed(self, tokens: Tensor) -> Tensor:
        return self.tokens(tokens) + self.positions[: tokens.shape[1]]

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory = self.embed(source)
        for layer in self.encoder:
            memory = run_block(layer, memory, self.recompute)
        length = target.shape[1]
        mask = torch.full((length, length), float("-inf"), device=target.device).triu(1)
        x = self.embed(target)
        for layer in self.decoder:
            x = layer(x, memory, tgt_mask=mask, tgt_is_causal=True)
        return self.head(x)


class SentencePairs(Dataset[tuple[Tensor, Tensor]]):
    """Random sentences of equal length with a random translation."""

    def __init__(self, size: int, vocab: int = 256, length: int = 12) -> None:
        self.source = torch.randint(0, vocab, (size, length))
        self.target = torch.randint(0, vocab, (size, length + 1))

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.source[index], self.target[index]


def collate_sentence_pairs(samples: list[tuple[Tensor, Tensor]]) -> Batch:
    """Stack both sides. The decoder reads all but the last target token, and predicts all but the first."""
    sources, targets = zip(*samples, strict=True)
    target = torch.stack(targets)
    return (torch.stack(sources), target[:, :-1]), (target[:, 1:],)


# --- gnn: a classifier of molecules -----------------------------------------------------------------------------------


class GraphConvolution(nn.Module):
    """Each node adds the mean of the neighbours' messages: gather, linear, scatter, normalise."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.message = nn.Linear(2 * dim, dim)
        self.update = nn.Sequential(nn.Linear(2 * dim, dim), nn.LayerNorm(dim), nn.ReLU())

    def forward(self, nodes: Tensor, source: Tensor, target: Tensor) -> Tensor:
        messages = torch.relu(self.message(torch.cat([nodes[source], nodes[target]], dim=1)))
        total = torch.zeros_like(nodes).index_add_(0, target, messages)
        degree = torch.zeros_like(nodes[:, 0]).scatter_add_(0, target, torch.ones_like(messages[:, 0]))
        return nodes + self.update(torch.cat([nodes, total / degree.clamp(min=1)[:, None]], dim=1))


class GraphNetwork(nn.Module):
    """Graph convolutions over a batch of graphs, the largest value of each graph's nodes, a linear classifier."""

    def __init__(self, atoms: int = 32, dim: int = 32, depth: int = 3, recompute: bool = False) -> None:
        super().__init__()
        self.recompute = recompute
        self.atoms = nn.Embedding(atoms, dim)
        self.layers = nn.ModuleList(GraphConvolution(dim) for _ in range(depth))
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(dim, 1)

    def forward(self, atoms: Tensor, source: Tensor, target: Tensor, graph: Tensor) -> Tensor:
        x = self.atoms(atoms)
        for layer in self.layers:
            if self.recompute and torch.is_grad_enabled():
                x = checkpoint(layer, x, source, target, use_reentrant=False)
            else:
                x = layer(x, source, target)
        x = self.dropout(x)
        # `graph[-1] + 1` is the number of graphs, but reading a value would wait for the GPU. So `pooled` has as many
        # rows as nodes, and the unused rows stay zero.
        pooled = torch.zeros_like(x).scatter_reduce(0, graph[:, None].expand_as(x), x, "amax", include_self=False)
        return self.head(pooled).squeeze(1)


class Molecules(Dataset[tuple[Tensor, Tensor, Tensor]]):
    """Random graphs of 6 to 10 nodes with three edges for each node, active or not."""

    def __init__(self, size: int) -> None:
        counts = torch.randint(6, 11, (size,)).tolist()
        self.atoms = [torch.randint(0, 32, (count,)) for count in counts]
        self.edges = [torch.randint(0, count, (2, 3 * count)) for count in counts]
        self.active = torch.randint(0, 2, (size,)).float()

    def __len__(self) -> int:
        return len(self.atoms)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        return self.atoms[index], self.edges[index], self.active[index]


def collate_graphs(samples: list[tuple[Tensor, Tensor, Tensor]]) -> Batch:
    """Join the graphs into one large graph; `graph` is the index of the original graph of each node."""
    atoms, edges, active = zip(*samples, strict=True)
    counts = torch.tensor([len(nodes) for nodes in atoms])
    first = (counts.cumsum(0) - counts).tolist()
    joined = torch.cat([pair + offset for pair, offset in zip(edges, first, strict=True)], dim=1)
    graph = torch.repeat_interleave(torch.arange(len(atoms)), counts)
    return (torch.cat(atoms), joined[0], joined[1], graph), (torch.stack(active),)


def graph_loss(scores: Tensor, active: Tensor) -> Tensor:
    """Binary cross entropy of the used rows."""
    return F.binary_cross_entropy_with_logits(scores[: len(active)], active)


# --- unet: a diffusion model ------------------------------------------------------------------------------------------


class TimeBlock(nn.Module):
    """Two convolutions with group norm; a projection of the time embedding is added in between."""

    def __init__(self, in_channels: int, channels: int, time_dim: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, padding=1)
        self.norm1 = nn.GroupNorm(4, channels)
        self.time = nn.Linear(time_dim, channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm2 = nn.GroupNorm(4, channels)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        x = F.silu(self.norm1(self.conv1(x))) + self.time(time)[:, :, None, None]
        return F.silu(self.norm2(self.conv2(x)))


class UNet(nn.Module):
    """Down, through the middle and up again, with skip connections between both sides: predicts the noise."""

    def __init__(self, channels: int = 16, depth: int = 2, time_dim: int = 32, recompute: bool = False) -> None:
        super().__init__()
        self.recompute = recompute
        self.time = nn.Sequential(nn.Linear(time_dim, time_dim), nn.SiLU(), nn.Linear(time_dim, time_dim))
        self.frequencies: Tensor
        self.register_buffer("frequencies", torch.exp(-torch.arange(time_dim // 2) / 2.0))
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        widths = [channels * 2**level for level in range(depth + 1)]
        self.down = nn.ModuleList(TimeBlock(a, b, time_dim) for a, b in pairwise(widths))
        self.pool = nn.AvgPool2d(2)
        self.middle = TimeBlock(widths[-1], widths[-1], time_dim)
        self.up = nn.ModuleList(TimeBlock(2 * b, a, time_dim) for a, b in reversed(list(pairwise(widths))))
        self.head = nn.Conv2d(channels, 3, 1)

    def forward(self, images: Tensor, time: Tensor) -> Tensor:
        angles = time[:, None] * self.frequencies
        t = self.time(torch.cat([angles.sin(), angles.cos()], dim=1))
        x = self.stem(images)
        skips = []
        for block in self.down:
            x = self.run(block, x, t)
            skips.append(x)
            x = self.pool(x)
        x = self.run(self.middle, x, t)
        for block in self.up:
            x = F.interpolate(x, scale_factor=2.0, mode="nearest")
            x = self.run(block, torch.cat([x, skips.pop()], dim=1), t)
        return self.head(x)

    def run(self, block: nn.Module, x: Tensor, time: Tensor) -> Tensor:
        if self.recompute and torch.is_grad_enabled():
            return checkpoint(block, x, time, use_reentrant=False)
        return block(x, time)


class NoisyImages(Dataset[tuple[Tensor, Tensor, Tensor]]):
    """Random images with noise, the time (amount of noise), and the noise."""

    def __init__(self, size: int, pixels: int = 16) -> None:
        self.noise = torch.randn(size, 3, pixels, pixels)
        self.time = torch.rand(size)
        self.images = torch.randn_like(self.noise) + self.time[:, None, None, None] * self.noise

    def __len__(self) -> int:
        return len(self.time)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        return self.images[index], self.time[index], self.noise[index]


def collate_noisy_images(samples: list[tuple[Tensor, Tensor, Tensor]]) -> Batch:
    """Stack images and times, and the noise to predict."""
    images, time, noise = zip(*samples, strict=True)
    return (torch.stack(images), torch.stack(time)), (torch.stack(noise),)


# --- two models dominated by one kind of work -------------------------------------------------------------------------


class MLP(nn.Module):
    """Square linear layers: almost all time is in large matrix products."""

    def __init__(self, width: int, depth: int = 4, recompute: bool = False) -> None:
        super().__init__()
        self.recompute = recompute
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.relu(run_block(layer, x, self.recompute))
        return x


class Vectors(Dataset[tuple[Tensor, Tensor]]):
    """Random vectors, to be mapped to random vectors."""

    def __init__(self, size: int, width: int) -> None:
        self.vectors = torch.randn(size, width)

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.vectors[index], self.vectors[-index]


class Colours(nn.Module):
    """Classifies an image by the mean colour: copying dominates, with little computation."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.fc = nn.Linear(3, classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.fc(images.mean((2, 3)))


# --- the choice -------------------------------------------------------------------------------------------------------


def cnn(samples: int, recompute: bool, size: Size) -> Example:
    width = {"tiny": 8, "small": 16, "large": 64}[size]
    return Example(ResidualCNN(width, recompute=recompute), Images(samples), collate_pairs, F.cross_entropy)


def resnet50(samples: int, recompute: bool, size: Size) -> Example:
    depths = {"tiny": (1, 1), "small": (2, 2, 2, 2), "large": (3, 4, 6, 3)}[size]
    width, pixels = {"tiny": (8, 32), "small": (16, 64), "large": (64, 224)}[size]
    classes = 1000 if size == "large" else 10
    model = ResNet50(depths, width, classes, recompute)
    return Example(model, Images(samples, pixels, classes), collate_pairs, F.cross_entropy)


def transformer(samples: int, recompute: bool, size: Size) -> Example:
    vocab, dim, length, depth = {
        "tiny": (128, 32, 16, 2),
        "small": (512, 64, 32, 3),
        "large": (50_257, 768, 512, 12),
    }[size]
    model = TransformerLM(vocab, length, dim, depth, recompute)
    return Example(model, Sentences(samples, vocab, length), collate_pairs, next_token_loss)


def lstm(samples: int, recompute: bool, size: Size) -> Example:
    features, hidden, layers = {"tiny": (20, 16, 1), "small": (40, 64, 1), "large": (80, 512, 2)}[size]
    shortest, longest = {"tiny": (3, 5), "small": (10, 16), "large": (60, 120)}[size]
    model = SpeechLSTM(features, hidden, layers=layers, recompute=recompute)
    data = Utterances(samples, features, shortest, longest, symbols=1 if size == "tiny" else 4)
    return Example(model, data, collate_utterances, ctc_loss)


def dlrm(samples: int, recompute: bool, size: Size) -> Example:
    tables, rows, dim = {"tiny": (3, 100, 8), "small": (3, 1000, 16), "large": (26, 200_000, 128)}[size]
    model = DLRM(tables=tables, rows=rows, dim=dim, recompute=recompute)
    return Example(model, Clicks(samples, tables, rows), collate_clicks, F.binary_cross_entropy_with_logits)


def seq2seq(samples: int, recompute: bool, size: Size) -> Example:
    vocab, dim, length, depth = {"tiny": (64, 16, 8, 1), "small": (256, 32, 12, 2), "large": (32_000, 512, 128, 6)}[
        size
    ]
    model = Translator(vocab, dim, length, depth, recompute)
    return Example(model, SentencePairs(samples, vocab, length), collate_sentence_pairs, next_token_loss)


def gnn(samples: int, recompute: bool, size: Size) -> Example:
    dim, depth = {"tiny": (16, 2), "small": (32, 3), "large": (300, 5)}[size]
    return Example(GraphNetwork(32, dim, depth, recompute), Molecules(samples), collate_graphs, graph_loss)


def unet(samples: int, recompute: bool, size: Size) -> Example:
    channels, depth, pixels = {"tiny": (8, 2, 16), "small": (16, 2, 16), "large": (128, 3, 64)}[size]
    model = UNet(channels, depth, recompute=recompute)
    return Example(model, NoisyImages(samples, pixels), collate_noisy_images, F.mse_loss)


def mlp(samples: int, recompute: bool, size: Size) -> Example:
    width = {"tiny": 16, "small": 256, "large": 8192}[size]
    return Example(MLP(width, recompute=recompute), Vectors(samples, width), collate_pairs, F.mse_loss)


def colours(samples: int, recompute: bool, size: Size) -> Example:
    pixels = {"tiny": 16, "small": 64, "large": 512}[size]
    return Example(Colours(), Images(samples, pixels), collate_pairs, F.cross_entropy)


EXAMPLES: dict[str, Callable[[int, bool, Size], Example]] = {
    "cnn": cnn,
    "resnet50": resnet50,
    "transformer": transformer,
    "lstm": lstm,
    "dlrm": dlrm,
    "seq2seq": seq2seq,
    "gnn": gnn,
    "unet": unet,
    "mlp": mlp,
    "colours": colours,
}
"""Model name → builder taking the number of samples, whether to checkpoint activations, and the size."""
