"""A decoder that feeds its words back. PLANTED: an LSTMCell is called once for each of 80 positions."""

import torch
import torch.nn as nn

PLANTED = ("LSTMCell", "cell")


class Decoder(nn.Module):
    def __init__(self, vocab=200, hidden=96):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden)
        self.cell = nn.LSTMCell(hidden, hidden)  # planted
        self.out = nn.Linear(hidden, vocab)

    def forward(self, words):
        h = c = torch.zeros(len(words), 96)
        states = []
        for t in range(words.shape[1]):
            h, c = self.cell(self.embed(words[:, t]), (h, c))  # planted
            states.append(h)
        return self.out(torch.stack(states, 1))


def main(watch):
    decoder = Decoder()
    optim = torch.optim.Adam(decoder.parameters(), lr=1e-3)
    with watch.recording(decoder):
        for _ in range(watch.total):
            with watch("load_data"):
                words = torch.randint(0, 200, (16, 81))
            with watch("forward"):
                logits = decoder(words[:, :-1])
            with watch("loss"):
                loss = nn.functional.cross_entropy(logits.flatten(0, 1), words[:, 1:].flatten())
            with watch("zero_grad"):
                optim.zero_grad()
            with watch("backward"):
                loss.backward()
            with watch("optimizer"):
                optim.step()
            watch.step()
