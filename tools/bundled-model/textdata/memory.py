"""Conversations in which the user tells several things of himself and asks for them later, in any order."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from textdata import words
from textdata.exercises import Turn, any_name
from textdata.fact_tables import CAPITALS
from textdata.grammar import a
from textdata.variation import vary

COLORS = ["red", "blue", "green", "yellow", "pink", "black", "white", "brown", "orange", "purple"]
FOODS = ["pizza", "soup", "rice", "cake", "bread", "cheese", "apples", "bananas", "noodles", "pancakes", "eggs", "salad"]
PETS = ["dog", "cat", "bird", "rabbit", "horse", "hamster", "fish", "turtle"]
RELATIVES = ["sister", "brother", "mother", "father", "friend", "teacher", "son", "daughter"]


@dataclass(frozen=True)
class Told:
    """What the user says, what Svc says to it, and a later question with its answer."""

    said: list[str]
    heard: str
    asks: list[str]
    answer: str


def name(rng: random.Random) -> Told:
    who = any_name(rng)
    said = [f"My name is {who}.", f"I am {who}.", f"Hello, my name is {who}.", f"Hi, I'm {who}."]
    return Told(
        said, f"Nice to meet you, {who}! I am Svc.", ["What is my name?", "Do you know my name?", "Do you remember my name?"], f"Your name is {who}."
    )


def pet(rng: random.Random) -> Told:
    kind, who = rng.choice(PETS), any_name(rng)
    said = [f"I have a {kind} named {who}.", f"My {kind} is called {who}.", f"My {kind}'s name is {who}."]
    asks = [f"What is my {kind}'s name?", f"What is the name of my {kind}?", f"How is my {kind} called?"]
    return Told(said, f"{who} is a nice name for a {kind}.", asks, f"Your {kind}'s name is {who}.")


def relative(rng: random.Random) -> Told:
    kind, who = rng.choice(RELATIVES), any_name(rng)
    said = [f"My {kind} is called {who}.", f"My {kind}'s name is {who}."]
    asks = [f"What is my {kind}'s name?", f"What is the name of my {kind}?"]
    return Told(said, f"{who} is a nice name.", asks, f"Your {kind}'s name is {who}.")


def color(rng: random.Random) -> Told:
    one = rng.choice(COLORS)
    said = [f"My favorite color is {one}.", f"I like {one} most of all colors.", f"The color I like best is {one}."]
    return Told(said, f"{one.capitalize()} is a nice color.", ["What is my favorite color?", "Which color do I like?"], f"Your favorite color is {one}.")


def food(rng: random.Random) -> Told:
    one = rng.choice(FOODS)
    said = [f"My favorite food is {one}.", f"I love to eat {one}."]
    return Told(said, f"I have heard that {one} can be very good.", ["What is my favorite food?", "What do I like to eat?"], f"Your favorite food is {one}.")


def age(rng: random.Random) -> Told:
    years = rng.randint(4, 80)
    said = [f"I am {years} years old.", f"I'm {years} years old.", f"My age is {years}."]
    return Told(said, f"{years} is a good age.", ["How old am I?", "What is my age?"], f"You are {years} years old.")


def town(rng: random.Random) -> Told:
    place = rng.choice(list(CAPITALS.values()))
    said = [f"I live in {place}.", f"My home is in {place}."]
    return Told(said, f"I have never been to {place}, but I would like to hear about it.", ["Where do I live?", "Where is my home?"], f"You live in {place}.")


def job(rng: random.Random) -> Told:
    one = rng.choice(words.PEOPLE_HE)
    said = [f"I am {a(one)}.", f"I work as {a(one)}."]
    return Told(said, "That sounds like good work.", ["What is my job?", "What do I do?"], f"You are {a(one)}.")


KINDS: list[Callable[[random.Random], Told]] = [name, pet, relative, color, food, age, town, job]


def told_and_asked(rng: random.Random, other_turn: Callable[[], Turn]) -> list[Turn]:
    """Two or three things, in turns of their own or in one, then other talk or none, then questions for them in any order."""
    things = [make(rng) for make in rng.sample(KINDS, rng.choice([2, 2, 2, 3]))]
    turns: list[Turn] = []
    if rng.random() < 0.3:
        turns.append((vary(" ".join(rng.choice(thing.said) for thing in things), rng), things[-1].heard))
    else:
        for thing in things:
            turns.append((vary(rng.choice(thing.said), rng), thing.heard))
            if rng.random() < 0.25:
                turns.append(other_turn())
    if rng.random() < 0.4:
        turns.append(other_turn())
    asked = rng.sample(things, len(things))
    return [*turns, *((vary(rng.choice(thing.asks), rng), thing.answer) for thing in asked)]
