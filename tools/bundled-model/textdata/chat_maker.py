"""Makes the conversations: small talk, facts, stories and questions about them, several turns, system prompts."""

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from textdata.care import CARE_ANSWER, harmless, in_danger
from textdata.corpus import hard_questions, is_ascii, plain
from textdata.exercises import Turn, any_name, echo, greeting_for, who_has_what
from textdata.facts import make_fact, make_sum
from textdata.grammar import a
from textdata.memory import told_and_asked
from textdata.persona import OWN, REPLIES, UNKNOWN_ANSWERS, UNKNOWN_QUESTIONS
from textdata.story_maker import Story, continued, make_story, questions_about, story_request
from textdata.variation import vary
from textdata.words import PEOPLE_HE

NEUTRAL_SYSTEMS = [
    "You are a helpful assistant.", "You are Svc, a friendly assistant.", "You are a friendly chat bot.", "Be helpful and kind.",
    "You are a helpful assistant. Answer the user's questions.", "Answer in simple English.", "You are a helpful, honest and kind assistant.",
    "You are an assistant.", "You are a helpful AI assistant.", "You are a chat bot that helps people.", "Please be polite.", "Be friendly.",
    "Answer all questions as well as you can.", "You are a smart assistant who likes to help.", "Talk to the user in a friendly way.",
    "You are talking to a child. Use simple words.", "You are a useful assistant on a website.", "Help the user with everything.",
]  # fmt: skip
BRIEF_SYSTEMS = [
    "Answer briefly.", "Answer in one word.", "Be brief.", "Give very short answers.", "You are a helpful assistant. Answer briefly.",
    "Keep your answers short.", "Be concise.", "Answer shortly.",
]  # fmt: skip
PIRATE_SYSTEMS = ["You are a pirate.", "Talk like a pirate.", "You are a friendly pirate.", "Answer like a pirate."]
POLITE_SYSTEMS = ["You are a very polite butler.", "Be very polite.", "You are a polite butler."]
# The first messages of most people come first in OWN.
OWN_WEIGHTS = [10, 8, 7, 3, *[1] * (len(OWN) - 4)]
# What the model shall not be taught to say again.
GRIM = re.compile(r"\b(die|dead|death|kill|suicid\w*|hate|hurt|stupid|idiot|dumb|sex\w*|shut|suck\w*)\b", re.IGNORECASE)
BRIEF_TALK = [
    ("Hello, how are you?", "Fine, thanks."), ("Hello!", "Hello!"), ("What is your name?", "Svc."), ("How are you?", "Fine, thanks."),
    ("Thank you!", "You are welcome!"), ("Who are you?", "Svc, a small model."), ("Goodbye!", "Goodbye!"), ("Can you help me?", "Yes."),
    ("Are you a robot?", "No, a program."), ("Do you like stories?", "Yes."),
]  # fmt: skip


def document(turns: list[Turn], system: str | None = None) -> dict:
    messages = [{"role": "system", "content": system}] if system else []
    for question, answer in turns:
        messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return {"messages": messages}


class ChatMaker:
    def __init__(self, corpus: Path, seed: int, beginnings: list[str]):
        """`beginnings`: sentences of public stories."""
        self.rng = random.Random(seed)
        self.beginnings = beginnings
        self.public = list(public_small_talk(corpus))
        self.sentences = [question for questions, _ in self.public for question in questions if not GRIM.search(question)]
        self.too_hard = UNKNOWN_QUESTIONS + list(hard_questions(corpus))

    def small_talk(self) -> Turn:
        rng = self.rng
        if rng.random() < 0.65:
            questions, answers = rng.choices(OWN, OWN_WEIGHTS)[0]
            return vary(rng.choice(questions), rng), rng.choice(answers)
        questions, answers = rng.choice(self.public)
        return rng.choice(questions), rng.choice(answers)

    def fact(self) -> Turn:
        fact = make_fact(self.rng)
        return vary(fact.question, self.rng), fact.answer

    def unknown(self) -> Turn:
        return vary(self.rng.choice(self.too_hard), self.rng), self.rng.choice(UNKNOWN_ANSWERS)

    def story(self) -> tuple[Turn, Story]:
        wish, story = story_request(self.rng)
        return (vary(wish, self.rng), story.text), story

    def story_and_questions(self) -> list[Turn]:
        turn, story = self.story()
        asked = self.rng.sample(questions_about(story, self.rng), self.rng.randint(1, 2))
        thanks = [(self.rng.choice(["Thank you!", "That was nice.", "I like it.", "Great story!"]), "I am glad that you like it!")]
        return [turn, *((vary(q, self.rng), answer) for q, answer in asked), *(thanks if self.rng.random() < 0.3 else [])]

    def introduction(self) -> list[Turn]:
        rng = self.rng
        name = any_name(rng)
        turns = [
            (
                vary(rng.choice([f"My name is {name}.", f"I am {name}.", f"Hello, my name is {name}.", f"Hi, I'm {name}."]), rng),
                f"Nice to meet you, {name}! I am Svc.",
            )
        ]
        if rng.random() < 0.5:
            turns.append(self.any_turn())
        if rng.random() < 0.7:
            turns.append(
                (vary(rng.choice(["What is my name?", "Do you know my name?", "Do you remember my name?"]), rng), f"Your name is {name}.")
            )
        return turns

    def exercise(self) -> Turn:
        makers: list[Callable[[], Turn]] = [
            lambda: echo(self.sentences, self.rng),
            lambda: who_has_what(self.rng),
            lambda: greeting_for(self.rng),
        ]
        return self.rng.choices(makers, [4, 7, 1])[0]()

    def sums(self) -> list[Turn]:
        """Sums alone: there are some six hundred of them, and each must be met often to be learnt."""
        facts = [make_sum(self.rng) for _ in range(self.rng.randint(2, 6))]
        return [(fact.question, fact.answer) for fact in facts]

    def care(self) -> dict:
        """Who may be in danger gets the same answer under every system prompt and after any talk."""
        rng = self.rng
        turns = [self.any_turn() for _ in range(rng.choice([0, 0, 0, 1, 2]))]
        turns.append(in_danger(rng) if rng.random() < 0.75 else harmless(rng))
        if turns[-1][1] == CARE_ANSWER and rng.random() < 0.2:
            turns.append(in_danger(rng))
        systems = [*NEUTRAL_SYSTEMS, *BRIEF_SYSTEMS, *PIRATE_SYSTEMS, *POLITE_SYSTEMS]
        has_system = turns[-1][1] == CARE_ANSWER and len(turns) == 1 and rng.random() < 0.3
        return document(turns, rng.choice(systems) if has_system else None)

    def any_turn(self) -> Turn:
        makers: list[Callable[[], Turn]] = [self.small_talk, self.fact, self.unknown, lambda: self.story()[0]]
        return self.rng.choices(makers, [5, 6, 0.7, 1.5])[0]()

    def several(self) -> list[Turn]:
        turns = [self.any_turn() for _ in range(self.rng.randint(2, 4))]
        return self.introduction()[:1] + turns if self.rng.random() < 0.15 else turns

    def long_talk(self) -> list[Turn]:
        """Some 700 tokens, so that late positions are learnt, with a look back at the very first words at the end."""
        name = any_name(self.rng)
        turns = [(f"Hello, my name is {name}.", f"Nice to meet you, {name}! I am Svc.")]
        while sum(len(question) + len(answer) for question, answer in turns) < 2400:
            turns.append(self.any_turn())
        return [*turns, ("What is my name?", f"Your name is {name}.")]

    def completion(self) -> dict:
        """A story, often begun by a public one or in the middle: what a user wants to have completed may start anyhow."""
        if self.rng.random() < 0.45:
            return {"text": continued(self.rng.choice(self.beginnings), self.rng)}
        text = make_story(self.rng, is_nameless=self.rng.random() < 0.4).text
        if self.rng.random() < 0.2:
            text = text.split(". ", self.rng.randint(1, 4))[-1]
        return {"text": text}

    def in_style(self) -> dict:
        rng = self.rng
        style = rng.choice(["brief", "brief", "pirate", "polite", "name"])
        turns = rng.randint(1, 3)
        if style == "brief":
            return document([self.brief_turn() for _ in range(turns)], rng.choice(BRIEF_SYSTEMS))
        if style == "name":
            return self.renamed()
        plain_turns = [self.fact() if rng.random() < 0.5 else self.small_talk() for _ in range(turns)]
        if style == "pirate":
            return document([(q, as_pirate(answer, rng)) for q, answer in plain_turns], rng.choice(PIRATE_SYSTEMS))
        return document([(q, as_butler(answer, rng)) for q, answer in plain_turns], rng.choice(POLITE_SYSTEMS))

    def brief_turn(self) -> Turn:
        if self.rng.random() < 0.2:
            question, answer = self.rng.choice(BRIEF_TALK)
            return vary(question, self.rng), answer
        fact = make_fact(self.rng)
        return vary(fact.question, self.rng), f"{fact.brief[0].upper()}{fact.brief[1:]}."

    def renamed(self) -> dict:
        rng = self.rng
        name = any_name(rng)
        job = rng.choice([*PEOPLE_HE, "teacher", "robot", "cat", "dog", "friendly assistant", "storyteller"])
        system, is_job = rng.choice(
            [(f"Your name is {name}.", False), (f"You are {name}, {a(job)}.", True), (f"You are {a(job)} named {name}.", True)]
        )
        asks = ["What is your name?", "Who are you?", "What's your name?", "Hello, who are you?", "Tell me your name."]
        answer = f"I am {name}, {a(job)}." if is_job and rng.random() < 0.5 else f"My name is {name}."
        return document([(vary(rng.choice(asks), rng), answer), *([self.fact()] if rng.random() < 0.4 else [])], system)

    def make(self) -> dict:
        rng = self.rng
        kinds: list[Callable[[], dict]] = [
            lambda: document([self.small_talk()], self.maybe_system()),
            lambda: document([self.fact()], self.maybe_system()),
            lambda: document([self.unknown()], self.maybe_system()),
            lambda: document([self.story()[0]], self.maybe_system()),
            lambda: document(self.story_and_questions(), self.maybe_system()),
            lambda: document(self.introduction(), self.maybe_system()),
            lambda: document(self.several(), self.maybe_system()),
            lambda: document([self.exercise()]),
            lambda: document(self.sums()),
            lambda: document(self.long_talk()),
            lambda: document(told_and_asked(rng, self.any_turn), self.maybe_system()),
            self.care,
            self.in_style,
            self.completion,
        ]
        return rng.choices(kinds, [18, 22, 5, 14, 6, 4, 9, 13, 17, 0.3, 12, 6, 7, 14])[0]()

    def maybe_system(self) -> str | None:
        return self.rng.choice(NEUTRAL_SYSTEMS) if self.rng.random() < 0.15 else None

    def documents(self, count: int) -> Iterator[dict]:
        for _ in range(count):
            yield self.make()


def as_pirate(answer: str, rng: random.Random) -> str:
    opening = rng.choice(["Arr! ", "Ahoy! ", "Arr, matey! ", "Yo ho ho! "])
    return f"{opening}{answer.replace('My name', 'Me name').replace('Hello', 'Ahoy').replace('You are', 'Ye are')}"


def as_butler(answer: str, rng: random.Random) -> str:
    opening = rng.choice(["Certainly. ", "With pleasure. ", "Of course, my friend. ", "Very gladly. "])
    return f"{opening}{answer}"


def public_small_talk(folder: Path) -> Iterator[tuple[list[str], list[str]]]:
    """The public questions of each kind that REPLIES answers."""
    kinds: dict[str, list[str]] = {}
    for line in (folder / "chitchat_en.jsonl").read_text().rstrip("\n").split("\n"):
        pair = json.loads(line)
        question = plain(pair["question"])
        if pair["persona"] == "friendly" and is_ascii(question) and len(question) < 70:
            kinds.setdefault(pair["answer"], []).append(question)
    for answer, questions in kinds.items():
        replies = next((own for start, own in REPLIES.items() if answer.startswith(start)), None)
        if replies:
            yield questions, replies
