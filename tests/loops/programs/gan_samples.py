"""A DCGAN with two models and two optimizers. PLANTED: samples are written to disk in each step."""

import os

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

PLANTED = ("save_samples",)


class Generator(nn.Module):
    def __init__(self, nz=64):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, 64, 4, 1, 0, bias=False), nn.BatchNorm2d(64), nn.ReLU(True),
            nn.ConvTranspose2d(64, 32, 4, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(True),
            nn.ConvTranspose2d(32, 3, 4, 2, 1, bias=False), nn.Tanh(),
        )  # fmt: skip

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(3, 32, 4, 2, 1), nn.LeakyReLU(0.2, True),
            nn.Conv2d(32, 64, 4, 2, 1), nn.BatchNorm2d(64), nn.LeakyReLU(0.2, True), nn.Conv2d(64, 1, 4),
        )  # fmt: skip

    def forward(self, image):
        return self.main(image).flatten()


def save_samples(fake, path):  # planted
    pixels = ((fake[:6].detach() + 1) * 127.5).byte().permute(0, 2, 3, 1).reshape(-1, 16, 3).tolist()
    with open(path, "w") as f:
        f.write("P3\n16 96\n255\n")
        for row in pixels:
            f.write(" ".join(f"{r} {g} {b}" for r, g, b in row) + "\n")
            f.flush()
            os.fsync(f.fileno())


def main(watch):
    netG, netD = Generator(), Discriminator()
    optG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
    criterion = nn.BCEWithLogitsLoss()
    dataloader = DataLoader(TensorDataset(torch.randn(32 * watch.total, 3, 16, 16)), batch_size=32)
    real_label, fake_label = torch.ones(32), torch.zeros(32)
    with watch.recording(netD, batch_size=32):
        for (real,) in watch.next_of(dataloader):
            # (1) update D
            with watch("zero_grad"):
                netD.zero_grad()
            with watch("forward+loss"):
                errD_real = criterion(netD(real), real_label)
            with watch("backward"):
                errD_real.backward()
            with watch("forward+loss"):
                fake = netG(torch.randn(32, 64, 1, 1))
                errD_fake = criterion(netD(fake.detach()), fake_label)
            with watch("backward"):
                errD_fake.backward()
            with watch("optimizer"):
                optD.step()
            # (2) update G
            with watch("zero_grad"):
                netG.zero_grad()
            with watch("forward+loss"):
                errG = criterion(netD(fake), real_label)
            with watch("backward"):
                errG.backward()
            with watch("optimizer"):
                optG.step()
            save_samples(fake, "fake.ppm")  # planted
            watch.step()
