"""Trains a small BERT classifier. Its report has three graph breaks and two recompilations; docs/report.png shows it.

python -m stator run examples/bert_training.py
python -m stator report stator_trace -o report.html
"""

import torch
from transformers import BertConfig, BertForSequenceClassification

import stator

CONFIG = BertConfig(
    vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, num_labels=3
)


class Training:
    def __init__(self):
        torch.manual_seed(0)
        self.model = BertForSequenceClassification(CONFIG)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.worst = torch.zeros(())

    def loss(self, tokens, labels, smoothing):
        logits = self.model(tokens).logits
        if smoothing > 0.05:  # the program needs the number: captured again for another one
            logits = logits * (1 - smoothing)
        loss = torch.nn.functional.cross_entropy(logits, labels)
        print(f"loss {loss:.2f}")  # a break: printing
        if loss > self.worst:  # a break: the data decides
            self.worst = loss.detach()
        return loss

    def clip(self, limit):
        norm = torch.stack([p.grad.norm() for p in self.model.parameters()]).norm()
        if norm > limit:  # a break: the data decides
            for parameter in self.model.parameters():
                parameter.grad.mul_(limit / norm)


def main(steps=4):
    training = Training()
    loss_of, clip = stator.compile(training.loss), stator.compile(training.clip)
    for step in range(steps):
        tokens, labels = torch.randint(0, 99, (2, 8)), torch.randint(0, 3, (2,))
        loss = loss_of(tokens, labels, smoothing=[0.1, 0.0, 0.2, 0.2][step])
        training.optimizer.zero_grad()
        loss.backward()
        clip(1.0)
        training.optimizer.step()


if __name__ == "__main__":
    main()
