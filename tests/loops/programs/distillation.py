"""Distillation. PLANTED: the teacher is an ensemble, which answers for each image of the batch alone."""

import torch
import torch.nn as nn
import torch.nn.functional as F

PLANTED = ("ask_teachers",)


def convnet(width, depth):
    layers = [nn.Conv2d(3, width, 3, padding=1), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


@torch.no_grad()
def ask_teachers(teachers, images):  # planted
    answers = [sum(teacher(image[None]) for teacher in teachers) / len(teachers) for image in images]
    return torch.cat(answers)


def main(watch):
    student, teachers = convnet(16, 2), [convnet(8, 2).eval() for _ in range(2)]
    optimizer = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    dataset = torch.utils.data.TensorDataset(torch.randn(32 * watch.total, 3, 16, 16))
    loader = torch.utils.data.DataLoader(dataset, batch_size=32)
    T = 4.0
    with watch.recording(student, batch_size=32):
        for (images,) in watch.next_of(loader):
            with watch("zero_grad"):
                optimizer.zero_grad()
            with watch("forward"):
                soft = ask_teachers(teachers, images)  # planted
                logits = student(images)
            with watch("loss"):
                loss = F.kl_div(F.log_softmax(logits / T, 1), F.softmax(soft / T, 1), reduction="batchmean") * T * T
            with watch("backward"):
                loss.backward()
            with watch("optimizer"):
                optimizer.step()
            watch.step()
