"""LoRA fine-tuning of a small Llama. PLANTED: texts are tokenized in the loop, by a tokenizer written in python."""

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

PLANTED = ("encode", "collate", "Tokenizer")

TEXTS = ["the quick brown fox jumps over the lazy dog and runs away from the angry bear " * 3] * 64


class Tokenizer:
    """Byte pairs, merged one after the other."""

    def __init__(self):
        self.merges = [(a + b) for a in "etaoinshrdlu" for b in "etaoinshrdlu"][:90]

    def encode(self, text):  # planted
        parts = list(text)
        for merge in self.merges:
            i = 0
            while i < len(parts) - 1:
                if parts[i] + parts[i + 1] == merge:
                    parts[i : i + 2] = [merge]
                i += 1
        return [hash(part) % 500 for part in parts][:96]


tokenizer = Tokenizer()


def collate(batch):  # planted
    ids = torch.tensor([tokenizer.encode(text) for text in batch])
    return {"input_ids": ids, "labels": ids.clone()}


def main(watch):
    config = LlamaConfig(
        vocab_size=500, hidden_size=96, intermediate_size=192, num_hidden_layers=4, num_attention_heads=4
    )
    model = get_peft_model(
        LlamaForCausalLM(config), LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    )
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=2e-4)
    loader = torch.utils.data.DataLoader(TEXTS[: 4 * watch.total], batch_size=4, collate_fn=collate)
    with watch.recording(model, batch_size=4):
        for batch in watch.next_of(loader):  # planted
            with watch("forward+loss"):
                loss = model(**batch).loss
            with watch("backward"):
                loss.backward()
            with watch("clipping"):
                torch.nn.utils.clip_grad_norm_(trained, 1.0)
            with watch("optimizer"):
                optimizer.step()
            with watch("zero_grad"):
                optimizer.zero_grad()
            watch.step()
