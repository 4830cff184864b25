"""Documents -> rows of token ids with labels; train.py and evaluate.py call it.

A document is {"text": ...} or {"messages": [{"role", "content"}, ...]}. The loss counts a text wholly and, in a
conversation, only what the assistant says and the end token after it.
"""

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from tokenizers import Tokenizer

BEGIN, END, PAD = "<|begin|>", "<|end|>", "<|pad|>"
ROLES = ("system", "user", "assistant")
IGNORED = -100

Row = tuple[list[int], list[int]]


def read_documents(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().rstrip("\n").split("\n")]


def encode(document: dict, tokenizer: Tokenizer) -> Row:
    """Ids and, for each, whether the loss counts it."""
    begin, end = tokenizer.token_to_id(BEGIN), tokenizer.token_to_id(END)

    def ids_of(text: str) -> list[int]:
        return tokenizer.encode(text, add_special_tokens=False).ids

    if "text" in document:
        body = ids_of(document["text"]) + [end]
        return [begin, *body], [0] + [1] * len(body)
    ids, counted = [begin], [0]
    for message in document["messages"]:
        body = ids_of(message["content"]) + [end]
        ids += [tokenizer.token_to_id(f"<|{message['role']}|>"), *body]
        counted += [0] + [int(message["role"] == "assistant")] * len(body)
    return ids, counted


def encode_all(documents: Iterable[dict], tokenizer: Tokenizer) -> list[Row]:
    return [encode(document, tokenizer) for document in documents]


def pack(rows: list[Row], length: int, rng: random.Random) -> Iterator[Row]:
    """Shuffles the documents and fills sequences of length + 1 with whole ones; only too long ones are cut.

    Each document goes into the first of a few open sequences that has room, so little is lost to padding.
    """
    room = length + 1
    order = list(range(len(rows)))
    rng.shuffle(order)
    open_rows: list[tuple[list[int], list[int]]] = []
    for index in order:
        ids, counted = rows[index][0][:room], rows[index][1][:room]
        place = next((row for row in open_rows if len(row[0]) + len(ids) <= room), None)
        if place is None:
            place = ([], [])
            open_rows.append(place)
        place[0].extend(ids)
        place[1].extend(counted)
        if len(place[0]) > room - 12 or len(open_rows) > 12:
            fullest = max(open_rows, key=lambda row: len(row[0]))
            open_rows.remove(fullest)
            yield fullest
    yield from open_rows


def to_tensors(rows: list[Row], length: int, pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and labels, each [rows, length]; labels are the next ids, or IGNORED."""
    inputs = torch.full((len(rows), length), pad)
    labels = torch.full((len(rows), length), IGNORED)
    for number, (ids, counted) in enumerate(rows):
        size = len(ids) - 1
        inputs[number, :size] = torch.tensor(ids[:-1])
        following = [token if keep else IGNORED for token, keep in zip(ids[1:], counted[1:], strict=True)]
        labels[number, :size] = torch.tensor(following)
    return inputs, labels


def batches(rows: list[Row], tokens: int, lengths: tuple[int, int], pad: int, seed: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Endless batches of about `tokens` tokens; every tenth has sequences of the longer of the two lengths."""
    rng = random.Random(seed)
    sources = {size: endless(rows, size, rng) for size in lengths}
    number = 0
    while True:
        number += 1
        size = lengths[1] if number % 10 == 0 else lengths[0]
        yield to_tensors([next(sources[size]) for _ in range(max(1, tokens // size))], size, pad)


def endless(rows: list[Row], length: int, rng: random.Random) -> Iterator[Row]:
    while True:
        yield from pack(rows, length, rng)
