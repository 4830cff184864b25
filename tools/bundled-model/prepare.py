"""Writes the training and validation documents as JSON lines.

language.jsonl holds the public stories and passages of books (stories.jsonl only the stories, in short passages),
talk.jsonl the public chats, chat.jsonl the made conversations; each has a *-val file with what training never sees.
attribution.md names the authors of the stories under CC-BY.
"""

import argparse
import json
import random
from pathlib import Path

from textdata.chat_maker import ChatMaker
from textdata.corpus import attribution, beginnings, book_passages, public_talk, short_passages, stories


def write(path: Path, documents: list[dict]) -> None:
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    print(f"{path}: {len(documents)} documents, {path.stat().st_size / 1e6:.2f} MB")


def write_split(documents: list[dict], folder: Path, name: str, held_out: int, seed: int) -> tuple[list[dict], list[dict]]:
    """Shuffles; the last `held_out` documents become the validation part. Gives both parts back, training first."""
    random.Random(seed).shuffle(documents)
    write(folder / f"{name}-val.jsonl", documents[-held_out:])
    write(folder / f"{name}.jsonl", documents[:-held_out])
    return documents[:-held_out], documents[-held_out:]


def passages_of_stories(documents: list[dict]) -> list[dict]:
    return [{"text": text} for document in documents if document["source"] == "story" for text in short_passages(document["text"])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True, help="folder with the corpora that the model card names")
    parser.add_argument("--out", type=Path, default=Path("build/data"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--chats", type=int, default=220000, help="made conversations and stories")
    options = parser.parse_args()
    corpus, out, seed = options.corpus, options.out, options.seed
    out.mkdir(parents=True, exist_ok=True)
    language = [{"text": text, "source": "story"} for text in stories(corpus)]
    language += [{"text": text, "source": "book"} for text in book_passages(corpus)]
    seen, held_out = write_split(language, out, "language", 60, seed)
    (out / "attribution.md").write_text(attribution(corpus))
    write(out / "stories.jsonl", passages_of_stories(seen))
    write(out / "stories-val.jsonl", passages_of_stories(held_out))
    write_split(list(public_talk(corpus)), out, "talk", 100, seed)
    sentences = beginnings([document["text"] for document in seen if document["source"] == "story"])
    write_split(list(ChatMaker(corpus, seed, sentences).documents(options.chats)), out, "chat", 300, seed)


if __name__ == "__main__":
    main()
