"""Reads the public corpora: the stories that teach the language; prepare.py calls it. Licences: see the model card."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

# Children's books in plain enough English; the older or wordier ones (Just So Stories, Peter Pan...) are left out.
BOOKS = (
    "Grimms-Fairy-Tales_2591",
    "English-Fairy-Tales_7439",
    "The-Wonderful-Wizard-of-Oz_55",
    "The-Blue-Fairy-Book_503",
    "The-Adventures-of-Pinocchio_500",
    "Heidi_1448",
)
STRAIGHT = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "…": "...", "\u00a0": " "})
OLD_WORDS = re.compile(r"\b(thou|thee|thy|hath|doth|ye|wherefore|upon my word|niggers?|negroes)\b", re.IGNORECASE)
STORY_START = re.compile(
    r"^(Once upon a time|Once there (was|were)|Once, |One day,|One (sunny|bright|rainy|morning|night)|There once|Long ago)"
)


def plain(text: str) -> str:
    """ASCII quotes and dashes, single spaces, paragraphs parted by one newline."""
    text = text.translate(STRAIGHT).replace("--", " - ")
    text = re.sub(r"_([^_]*)_", r"\1", text)
    text = re.sub(r"[ \t]+", " ", text)
    return re.sub(r"\s*\n\s*", "\n", text).strip()


def is_ascii(text: str) -> bool:
    return all(ord(char) < 128 for char in text)


def usable_records(folder: Path) -> Iterator[dict]:
    """The stories of African Storybook and StoryWeaver that are used, with title, author and licence."""
    for line in (folder / "stories_ccby.jsonl").read_text().rstrip("\n").split("\n"):
        record = json.loads(line)
        text = plain(record["text"])
        if is_ascii(text) and len(text) > 150:
            yield record


def picture_books(folder: Path) -> Iterator[str]:
    for record in usable_records(folder):
        title, text = plain(record["title"]), plain(record["text"])
        yield f"{title}\n{text}" if is_ascii(title) else text


def attribution(folder: Path) -> str:
    """The credits that CC-BY asks for, one line a story."""
    lines = [
        f"- {plain(record['title'])}, {plain(record['author'])} ({record['source']}, {record['license']})"
        for record in usable_records(folder)
    ]
    return (
        "# Stories under CC-BY in the training text\n\nShortened to plain text; otherwise unchanged.\n\n" + "\n".join(sorted(lines)) + "\n"
    )


def tiny_stories(folder: Path) -> Iterator[str]:
    """Splits the sample where a paragraph opens a new story and the last one is long enough to have ended."""
    for piece in (folder / "tinystories_sample.txt").read_text().split("<|endoftext|>"):
        story: list[str] = []
        for paragraph in filter(None, (plain(part) for part in piece.split("\n\n"))):
            if STORY_START.match(paragraph) and sum(map(len, story)) > 400:
                yield "\n".join(story)
                story = []
            story.append(paragraph)
        if story:
            yield "\n".join(story)


def book_passages(folder: Path, characters: int = 1400) -> Iterator[str]:
    """Runs of whole paragraphs of the simpler children's books, about `characters` long."""
    for name in BOOKS:
        paragraphs = [plain(part) for part in (folder / "gutenberg_children" / f"{name}.txt").read_text().split("\n\n")]
        passage: list[str] = []
        for paragraph in paragraphs[20:]:
            if not usable_paragraph(paragraph):
                if sum(map(len, passage)) > 400:
                    yield "\n".join(passage)
                passage = []
                continue
            passage.append(paragraph)
            if sum(map(len, passage)) > characters:
                yield "\n".join(passage)
                passage = []


def usable_paragraph(paragraph: str) -> bool:
    return (
        is_ascii(paragraph)
        and 40 < len(paragraph) < 900
        and not paragraph.isupper()
        and paragraph[-1] in ".!?\"'"
        and not OLD_WORDS.search(paragraph)
    )


SENTENCE_END = re.compile(r"(?<=[.!?])(?=\s)|(?<=[.!?]\")(?=\s)")
SENTENCE = re.compile(r"[A-Z\"][^\n]{11,110}[.!?]\"?")


def beginnings(texts: list[str]) -> list[str]:
    """Sentences that can stand alone."""
    parts = [part.strip() for text in texts for part in SENTENCE_END.split(text)]
    return [part for part in parts if SENTENCE.fullmatch(part) and part.count('"') % 2 == 0]


def short_passages(text: str, characters: int = 500) -> Iterator[str]:
    """Whole sentences of a text, about `characters` long: so small a model learns from these to write little, and to end."""
    passage = ""
    for sentence in SENTENCE_END.split(text):
        passage += sentence
        if len(passage) > characters:
            yield passage.strip()
            passage = ""
    if len(passage) > 100:
        yield passage.strip()


def stories(folder: Path) -> Iterator[str]:
    for text in [*picture_books(folder), *tiny_stories(folder)]:
        if is_ascii(text):
            yield text


def hard_questions(folder: Path) -> Iterator[str]:
    """Questions of the public sets that are beyond so small a model."""
    asking = re.compile(r"^(what|who|when|how|which|where|why|explain|define)\b", re.IGNORECASE)
    personal = re.compile(r"\b(you|your|yourself|u|i|me|my)\b", re.IGNORECASE)
    for line in (folder / "chatterbot_en.jsonl").read_text().rstrip("\n").split("\n"):
        question = plain(json.loads(line)["messages"][0]["content"])
        if is_ascii(question) and len(question) < 100 and asking.match(question) and not personal.search(question):
            yield question
    for line in (folder / "self_instruct_seed_tasks.jsonl").read_text().rstrip("\n").split("\n"):
        task = plain(json.loads(line)["instruction"])
        if is_ascii(task) and len(task) < 150 and "story" not in task:
            yield task.replace("\n", " ")


def public_talk(folder: Path) -> Iterator[dict]:
    """The public question and answer pairs as they are: their words shape the tokenizer."""
    for line in (folder / "chitchat_en.jsonl").read_text().rstrip("\n").split("\n"):
        pair = json.loads(line)
        if pair["persona"] == "friendly":
            yield conversation(pair["question"], pair["answer"])
    for line in (folder / "chatterbot_en.jsonl").read_text().rstrip("\n").split("\n"):
        messages = json.loads(line)["messages"]
        yield conversation(*(message["content"] for message in messages[:2]))


def conversation(*turns: str) -> dict:
    """Turns of user and assistant, the user first."""
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[i % 2], "content": plain(turn)} for i, turn in enumerate(turns)]}
