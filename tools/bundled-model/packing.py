"""Documents -> rows of token ids with labels; train.py and evaluate.py call it.

A document is {"text": ...} or {"messages": [{"role", "content"}, ...]}. The loss counts a text wholly and, in a
conversation, only what the assistant says and the end token after it.
"""

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from tokenizers import Tokenizer

BEGIN, END, PAD = "<|begin|>", "<|end|>", "<|pad|>"
ROLES = ("system", "user", "assistant")
IGNORED = -100


@dataclass
class Row:
    """Token ids, whether the loss counts each, and the number of the document that each belongs to."""

    ids: list[int] = field(default_factory=list)
    counted: list[int] = field(default_factory=list)
    documents: list[int] = field(default_factory=list)

    def extend(self, other: "Row") -> None:
        number = self.documents[-1] + 1 if self.documents else 0
        self.ids += other.ids
        self.counted += other.counted
        self.documents += [number] * len(other.ids)


@dataclass(frozen=True)
class Batch:
    """Each [rows, length]: input ids, labels (the next ids, or IGNORED), numbers of documents."""

    ids: torch.Tensor
    labels: torch.Tensor
    documents: torch.Tensor


def whole(ids: list[int], counted: list[int]) -> Row:
    """A row of one document."""
    return Row(ids, counted, [0] * len(ids))


def read_documents(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().rstrip("\n").split("\n")]


def encode(document: dict, tokenizer: Tokenizer) -> Row:
    begin, end = tokenizer.token_to_id(BEGIN), tokenizer.token_to_id(END)

    def ids_of(text: str) -> list[int]:
        return tokenizer.encode(text, add_special_tokens=False).ids

    if "text" in document:
        body = ids_of(document["text"]) + [end]
        return whole([begin, *body], [0] + [1] * len(body))
    ids, counted = [begin], [0]
    for message in document["messages"]:
        body = ids_of(message["content"]) + [end]
        ids += [tokenizer.token_to_id(f"<|{message['role']}|>"), *body]
        counted += [0] + [int(message["role"] == "assistant")] * len(body)
    return whole(ids, counted)


def encode_all(documents: Iterable[dict], tokenizer: Tokenizer) -> list[Row]:
    return [encode(document, tokenizer) for document in documents]


def counted_bytes(document: dict) -> int:
    """UTF-8 bytes of what the loss counts, so that losses compare across vocabularies."""
    if "text" in document:
        return len(document["text"].encode())
    return sum(len(message["content"].encode()) for message in document["messages"] if message["role"] == "assistant")


def pack(rows: list[Row], length: int, rng: random.Random) -> Iterator[Row]:
    """Shuffles the documents and fills sequences of length + 1 with whole ones; only too long ones are cut.

    Each document goes into the first of a few open sequences that has room, so little is lost to padding.
    """
    room = length + 1
    order = list(range(len(rows)))
    rng.shuffle(order)
    open_rows: list[Row] = []
    for index in order:
        document = whole(rows[index].ids[:room], rows[index].counted[:room])
        place = next((row for row in open_rows if len(row.ids) + len(document.ids) <= room), None)
        if place is None:
            place = Row()
            open_rows.append(place)
        place.extend(document)
        if len(place.ids) > room - 12 or len(open_rows) > 12:
            fullest = max(open_rows, key=lambda row: len(row.ids))
            open_rows.remove(fullest)
            yield fullest
    yield from open_rows


def to_batch(rows: list[Row], length: int, pad: int) -> Batch:
    ids = torch.full((len(rows), length), pad)
    labels = torch.full((len(rows), length), IGNORED)
    documents = torch.full((len(rows), length), -1)
    for number, row in enumerate(rows):
        size = len(row.ids) - 1
        ids[number, :size] = torch.tensor(row.ids[:-1])
        following = [token if keep else IGNORED for token, keep in zip(row.ids[1:], row.counted[1:], strict=True)]
        labels[number, :size] = torch.tensor(following)
        documents[number, :size] = torch.tensor(row.documents[:-1])
    return Batch(ids, labels, documents)


def batches(rows: list[Row], tokens: int, lengths: list[int], pad: int, seed: int) -> Iterator[Batch]:
    """Endless batches of about `tokens` tokens: a document goes into sequences of the shortest length that holds it.

    Each length comes as often as its share of all tokens.
    """
    rng = random.Random(seed)
    groups: dict[int, list[Row]] = {}
    for row in rows:
        fitting = (length for length in lengths if len(row.ids) <= length + 1)
        groups.setdefault(next(fitting, lengths[-1]), []).append(row)
    shares = [sum(len(row.ids) for row in group) for group in groups.values()]
    sources = [(length, endless(group, length, rng)) for length, group in groups.items()]
    while True:
        length, source = rng.choices(sources, shares)[0]
        yield to_batch([next(source) for _ in range(max(1, tokens // length))], length, pad)


def endless(rows: list[Row], length: int, rng: random.Random) -> Iterator[Row]:
    while True:
        yield from pack(rows, length, rng)
