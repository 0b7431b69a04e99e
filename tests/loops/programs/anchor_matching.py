"""Detection. PLANTED: anchors are matched with boxes one by one while the loss is computed."""

import torch
import torch.nn as nn
import torch.nn.functional as F

PLANTED = ("match_anchors", "detection_loss")


class Detector(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, c, 3, 2, 1),
            nn.BatchNorm2d(c),
            nn.SiLU(),
            nn.Conv2d(c, c, 3, 2, 1),
            nn.BatchNorm2d(c),
            nn.SiLU(),
        )
        self.cls, self.box = nn.Conv2d(c, 1, 1), nn.Conv2d(c, 4, 1)

    def forward(self, x):
        f = self.backbone(x)
        return self.cls(f).flatten(1), self.box(f).flatten(2).transpose(1, 2)


def match_anchors(anchors, boxes, threshold=0.3):  # planted
    matched = torch.full((len(anchors),), -1)
    for a, anchor in enumerate(anchors.tolist()):
        best = threshold
        for b, box in enumerate(boxes.tolist()):
            w = min(anchor[2], box[2]) - max(anchor[0], box[0])
            h = min(anchor[3], box[3]) - max(anchor[1], box[1])
            if w > 0 and h > 0 and w * h > best:
                best, matched[a] = w * h, b
    return matched


def detection_loss(scores, offsets, anchors, targets):
    total = 0.0
    for score, offset, boxes in zip(scores, offsets, targets, strict=True):
        matched = match_anchors(anchors, boxes)  # planted
        positive = matched >= 0
        total = total + F.binary_cross_entropy_with_logits(score, positive.float())
        if positive.any():
            total = total + F.smooth_l1_loss(offset[positive], (boxes[matched] - anchors)[positive])
    return total / len(scores)


def main(watch):
    model = Detector()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    grid = torch.stack(torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij"), -1).reshape(-1, 2)
    anchors = torch.cat([grid, grid + 3], 1)
    with watch.recording(model, batch_size=8):
        for _ in range(watch.total):
            with watch("load_data"):
                images, corner = torch.rand(8, 3, 64, 64), torch.rand(8, 5, 2) * 12
                targets = torch.cat([corner, corner + 4], 2)
            with watch("zero_grad"):
                optimizer.zero_grad()
            with watch("forward"):
                scores, offsets = model(images)
            with watch("loss"):
                loss = detection_loss(scores, offsets, anchors, targets)  # planted
            with watch("backward"):
                loss.backward()
            with watch("optimizer"):
                optimizer.step()
            watch.step()
