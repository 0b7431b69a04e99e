"""Segmentation. PLANTED: the overlap of each class is counted in python, between the loss and backward."""

import torch
import torch.nn as nn

PLANTED = ("mean_iou",)


class TinyUNet(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(3, 16, 3, 1, 1), nn.Conv2d(16, 32, 3, 2, 1)
        self.up = nn.ConvTranspose2d(32, 16, 2, 2)
        self.out = nn.Conv2d(32, classes, 1)

    def forward(self, x):
        a = torch.relu(self.down1(x))
        b = torch.relu(self.down2(a))
        return self.out(torch.cat([a, self.up(b)], 1))


def mean_iou(logits, target, classes=5):  # planted
    pairs = list(zip(logits.argmax(1).flatten().tolist(), target.flatten().tolist(), strict=True))
    scores = []
    for c in range(classes):
        both = sum(1 for p, t in pairs if p == c and t == c)
        either = sum(1 for p, t in pairs if p == c or t == c)
        scores.append(both / max(either, 1))
    return sum(scores) / classes


def main(watch):
    model = TinyUNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True)
    criterion = nn.CrossEntropyLoss()
    ious = []
    with watch.recording(model, batch_size=8):
        for _ in range(watch.total):
            with watch("load_data"):
                images, masks = torch.rand(8, 3, 40, 40), torch.randint(0, 5, (8, 40, 40))
            with watch("zero_grad"):
                optimizer.zero_grad()
            with watch("forward"):
                logits = model(images)
            with watch("loss"):
                loss = criterion(logits, masks)
            ious.append(mean_iou(logits.detach(), masks))  # planted
            with watch("backward"):
                loss.backward()
            with watch("optimizer"):
                optimizer.step()
            watch.step()
