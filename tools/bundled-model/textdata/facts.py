"""Questions of simple knowledge with a short answer (for "answer briefly") and a full one; chat_maker.py draws from them."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from textdata import fact_tables as tables
from textdata.grammar import a
from textdata.words import name_for


@dataclass(frozen=True)
class Fact:
    question: str
    brief: str
    answer: str


Maker = Callable[[random.Random], Fact]

NUMBERS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen twenty""".split()


def upper_first(text: str) -> str:
    return text[0].upper() + text[1:]


def pick(table: dict[str, str], rng: random.Random) -> tuple[str, str]:
    return rng.choice(list(table.items()))


def capital(rng: random.Random) -> Fact:
    country, city = pick(tables.CAPITALS, rng)
    asks = ["What is the capital of {}?", "What's the capital of {}?", "Which city is the capital of {}?", "Tell me the capital of {}.",
            "Do you know the capital of {}?", "Name the capital of {}.", "The capital of {}?", "capital of {}"]  # fmt: skip
    if rng.random() < 0.08:
        return Fact(f"{city} is the capital of which country?", country, f"{city} is the capital of {country}.")
    return Fact(rng.choice(asks).format(country), city, f"The capital of {country} is {city}.")


def addition(rng: random.Random) -> Fact:
    top = 10 if rng.random() < 0.5 else 20
    x, y = rng.randint(0, top), rng.randint(0, top)
    asks = ["What is {} plus {}?", "What is {} + {}?", "{} + {}", "{}+{}", "How much is {} plus {}?", "{} plus {}", "Add {} and {}.",
            "{} + {} = ?"]  # fmt: skip
    ask = rng.choice(asks).format(x, y)
    if rng.random() < 0.1:
        ask = f"What is {NUMBERS[x]} plus {NUMBERS[y]}?"
    return Fact(ask, str(x + y), f"{x} plus {y} is {x + y}.")


def subtraction(rng: random.Random) -> Fact:
    top = rng.choice([10, 10, 20])
    x = rng.randint(0, top)
    y = rng.randint(0, x)
    asks = ["What is {} minus {}?", "What is {} - {}?", "{} - {}", "{}-{}", "How much is {} minus {}?", "{} minus {}"]
    return Fact(rng.choice(asks).format(x, y), str(x - y), f"{x} minus {y} is {x - y}.")


def times(rng: random.Random) -> Fact:
    x, y = rng.randint(1, 10), rng.randint(1, 10)
    asks = ["What is {} times {}?", "How much is {} times {}?", "What is {} x {}?", "What is {} * {}?", "{} times {}", "{}*{}", "{} x {}"]
    return Fact(rng.choice(asks).format(x, y), str(x * y), f"{x} times {y} is {x * y}.")


EDIBLE = ["apples", "cookies", "pears"]


def word_sum(rng: random.Random) -> Fact:
    x, y = rng.randint(1, 9), rng.randint(1, 9)
    thing = rng.choice(["apples", "balls", "cookies", "books", "coins", "pears", "kittens", "flowers"])
    pronoun = rng.choice(["he", "she"])
    name = name_for(pronoun, rng)
    if rng.random() < 0.5:
        return Fact(
            f"{name} has {x + 1} {thing} and gets {y + 1} more. How many does {pronoun} have?",
            str(x + y + 2),
            f"{name} has {x + y + 2} {thing}.",
        )
    if rng.random() < 0.4:
        ask = rng.choice(["I have {} {} and {} {}. How many are left?", "If I have {} {} and {} {}, how many are left?"])
        lose = rng.choice(["lose", "give away", "eat"] if thing in EDIBLE else ["lose", "give away"])
        return Fact(ask.format(x + y, thing, lose, y), str(x), f"You have {x} {thing} left.")
    ask = rng.choice(["I have {} {} and get {} more. How many do I have?", "If I have {} {} and get {} more, how many do I have?"])
    return Fact(ask.format(x + 1, thing, y + 1), str(x + y + 2), f"You have {x + y + 2} {thing}.")


def counting(rng: random.Random) -> Fact:
    top = rng.choice([3, 5, 10, 10, 10, 12, 15, 20])
    numbers = ", ".join(map(str, range(1, top + 1)))
    asks = ["Count to {}.", "Can you count to {}?", "Please count to {}.", "Count from 1 to {}.", "Count from one to {}."]
    return Fact(rng.choice(asks).format(rng.choice([top, NUMBERS[top]])), numbers, f"{numbers}.")


def next_number(rng: random.Random) -> Fact:
    x = rng.randint(0, 30)
    if rng.random() < 0.5:
        return Fact(f"What comes after {x}?", str(x + 1), f"After {x} comes {x + 1}.")
    return Fact(f"What number comes before {x + 1}?", str(x), f"Before {x + 1} comes {x}.")


def bigger(rng: random.Random) -> Fact:
    x, y = rng.sample(range(1, 30), 2)
    if rng.random() < 0.5:
        return Fact(f"Which is bigger, {x} or {y}?", str(max(x, y)), f"{max(x, y)} is bigger than {min(x, y)}.")
    return Fact(
        f"Is {x} bigger than {y}?",
        "Yes" if x > y else "No",
        f"{'Yes' if x > y else 'No'}, {x} is {'bigger' if x > y else 'smaller'} than {y}.",
    )


# From small to big.
SIZES = """ant bee snail mouse frog bird cat dog sheep pig cow horse bear elephant whale""".split()


def bigger_animal(rng: random.Random) -> Fact:
    places = rng.sample(range(len(SIZES)), 2)
    big, small = SIZES[max(places)], SIZES[min(places)]
    one, other = (a(SIZES[place]) for place in places)
    if rng.random() < 0.3:
        answer = "Yes" if SIZES[places[0]] == big else "No"
        return Fact(f"Is {one} bigger than {other}?", answer, f"{answer}, {a(big)} is bigger than {a(small)}.")
    ask = rng.choice(["Which is bigger, {} or {}?", "Which animal is bigger, {} or {}?", "What is bigger, {} or {}?"])
    return Fact(ask.format(one, other), a(big), f"{upper_first(a(big))} is bigger than {a(small)}.")


DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()


def next_day(rng: random.Random) -> Fact:
    cycle, word = rng.choice([(DAYS, "day"), (MONTHS, "month")])
    place = rng.randrange(len(cycle))
    if rng.random() < 0.3:
        return Fact(f"What {word} comes before {cycle[place]}?", cycle[place - 1], f"{cycle[place - 1]} comes before {cycle[place]}.")
    following = cycle[(place + 1) % len(cycle)]
    ask = rng.choice(
        [f"What {word} comes after {cycle[place]}?", f"Which {word} comes after {cycle[place]}?", f"What comes after {cycle[place]}?"]
    )
    return Fact(ask, following, f"{following} comes after {cycle[place]}.")


def opposite(rng: random.Random) -> Fact:
    word, other = pick(tables.OPPOSITES, rng)
    if rng.random() < 0.5 and other not in tables.OPPOSITES:
        word, other = other, word
    ask = rng.choice(
        [
            "What is the opposite of {}?",
            "What's the opposite of {}?",
            "Tell me the opposite of {}.",
            "Opposite of {}?",
            "What is the opposite of the word {}?",
        ]
    )
    return Fact(ask.format(word), other, f"The opposite of {word} is {other}.")


def sound(rng: random.Random) -> Fact:
    animal, noise = pick(tables.SOUNDS, rng)
    ask = rng.choice(["What does {} say?", "What sound does {} make?", "How does {} go?", "What noise does {} make?"])
    return Fact(ask.format(rng.choice([a(animal), f"the {animal}"])), noise, f"{upper_first(a(animal))} says {noise}.")


def baby(rng: random.Random) -> Fact:
    animal, young = pick(tables.BABIES, rng)
    return Fact(
        rng.choice(["What is a baby {} called?", "What do you call a baby {}?"]).format(animal),
        young,
        f"A baby {animal} is called {young}.",
    )


def legs(rng: random.Random) -> Fact:
    animal, count = pick(tables.LEGS, rng)
    extra = " It has eight arms." if animal == "octopus" else ""
    return Fact(f"How many legs does {a(animal)} have?", count, f"{upper_first(a(animal))} has {count} legs.{extra}")


def lives(rng: random.Random) -> Fact:
    animal, place = pick(tables.HOMES, rng)
    if rng.random() < 0.5:
        return Fact(f"Where does {a(animal)} live?", place, f"{upper_first(a(animal))} lives {place}.")
    return Fact(f"Where do {animal}s live?".replace("fishs", "fish"), place, f"{upper_first(animal)}s live {place}.".replace("ishs", "ish"))


def eats(rng: random.Random) -> Fact:
    animal, food = pick(tables.EATS, rng)
    many = {"mouse": "mice"}.get(animal, f"{animal}s")
    return Fact(
        rng.choice(["What do {} eat?", "What do {} like to eat?", "What food do {} eat?"]).format(many),
        food,
        f"{upper_first(many)} eat {food}.",
    )


def color(rng: random.Random) -> Fact:
    thing, shade = pick(tables.COLORS, rng)
    ask = rng.choice(["What color is {}?", "What is the color of {}?", "Which color does {} have?", "What colour is {}?"])
    return Fact(ask.format(thing), shade, f"{upper_first(thing)} is {shade}.")


def mix(rng: random.Random) -> Fact:
    pair, shade = pick(tables.MIXES, rng)
    one, two = pair.split(" and ")
    return Fact(
        rng.choice([f"What do you get when you mix {one} and {two}?", f"Mix {two} and {one}."]),
        shade,
        f"When you mix {one} and {two}, you get {shade}.",
    )


def rhyme(rng: random.Random) -> Fact:
    word, other = pick(tables.RHYMES, rng)
    if rng.random() < 0.4:
        word, other = other, word
    ask = rng.choice(
        ["What rhymes with {}?", "Give me a word that rhymes with {}.", "Tell me a rhyme for {}.", "Which word rhymes with {}?"]
    )
    return Fact(ask.format(word), other, f"{upper_first(other)} rhymes with {word}.")


def plural(rng: random.Random) -> Fact:
    word, many = pick(tables.PLURALS, rng)
    return Fact(rng.choice(["What is the plural of {}?", "Plural of {}?"]).format(word), many, f"The plural of {word} is {many}.")


def past(rng: random.Random) -> Fact:
    word, form = pick(tables.PASTS, rng)
    return Fact(f"What is the past tense of {word}?", form, f"The past tense of {word} is {form}.")


def spelling(rng: random.Random) -> Fact:
    word = rng.choice([key for key in tables.RHYMES if len(key) < 6])
    return Fact(
        rng.choice(["How do you spell {}?", "Spell {}.", "Spell the word {}."]).format(word),
        "-".join(word.upper()),
        f"{upper_first(word)} is spelled {'-'.join(word.upper())}.",
    )


def language(rng: random.Random) -> Fact:
    country, tongue = pick(tables.LANGUAGES, rng)
    return Fact(
        rng.choice([f"What language do people speak in {country}?", f"Which language is spoken in {country}?"]),
        tongue,
        f"People in {country} speak {tongue}.",
    )


def continent(rng: random.Random) -> Fact:
    country, place = pick(tables.CONTINENTS, rng)
    return Fact(
        rng.choice([f"Where is {country}?", f"Which continent is {country} in?", f"Where is {country} located?"]),
        place,
        f"{country} is in {place}.",
    )


def definition(rng: random.Random) -> Fact:
    word, meaning = pick(tables.DEFINITIONS, rng)
    bare = word.split(" ", 1)[1] if word.split(" ")[0] in ("a", "an", "the") else word
    asks = [f"What is {word}?", f"What is {word}?", f"What's {word}?", f"Tell me what {word} is.", f"Can you explain what {word} is?", f"What does {bare} mean?",
            f"Explain {bare}.", f"Define {bare}.", f"Do you know what {word} is?", f"what is {bare}"]  # fmt: skip
    if word.startswith(("a ", "an ")) and bare[-1] not in "yshf":
        asks += [f"Tell me something about {bare}s.", f"What are {bare}s?", f"Tell me about {bare}s."]
    return Fact(rng.choice(asks), meaning, f"{upper_first(word)} is {meaning}.")


def how_to(rng: random.Random) -> Fact:
    task, steps = pick(tables.HOW_TO, rng)
    yours = task.replace(" my ", " your ")
    asks = [f"How do I {task}?", f"How can I {task}?", f"How do you {yours}?", f"Tell me how to {task}.", f"Can you tell me how to {task}?", f"How to {task}?",
            f"I want to {task}. How do I do it?", f"Explain how to {task}."]  # fmt: skip
    return Fact(rng.choice(asks), steps.split(".")[0], f"{steps}.")


def common(rng: random.Random) -> Fact:
    question, (brief, answer) = rng.choice(list(tables.COMMON.items()))
    return Fact(question, brief or answer.rstrip("."), answer)


def listing(rng: random.Random) -> Fact:
    """Items that follow each other in the table, from any place on: easier to learn than any order, and none comes twice."""
    kind, items = rng.choice(list(tables.LISTS.items()))
    count, start = rng.choice([2, 3, 3, 3, 4, 5]), rng.randrange(len(items))
    chosen = [items[(start + place) % len(items)] for place in range(count)]
    text = f"{', '.join(chosen[:-1])} and {chosen[-1]}"
    ask = rng.choice(["Name {} {}.", "Tell me {} {}.", "Can you name {} {}?", "Give me {} {}.", "List {} {}."])
    return Fact(ask.format(rng.choice([count, NUMBERS[count]]), kind), text, f"{upper_first(NUMBERS[count])} {kind} are {text}.")


MAKERS: list[tuple[Maker, float]] = [
    (capital, 6), (addition, 20), (subtraction, 10), (times, 6), (word_sum, 3), (counting, 3), (next_number, 1.5), (bigger, 1.5), (bigger_animal, 3), (next_day, 3),
    (opposite, 4), (sound, 2), (baby, 1), (legs, 1), (lives, 1.5), (eats, 1.5), (color, 3), (mix, 1), (rhyme, 2), (plural, 1), (past, 1),
    (spelling, 1), (language, 1), (continent, 1), (definition, 10), (how_to, 4), (common, 6), (listing, 4),
]  # fmt: skip


SUMS: list[Maker] = [addition, addition, addition, subtraction, subtraction, subtraction, times, times, word_sum]


def make_sum(rng: random.Random) -> Fact:
    return rng.choice(SUMS)(rng)


def make_fact(rng: random.Random) -> Fact:
    return rng.choices([maker for maker, _ in MAKERS], [weight for _, weight in MAKERS])[0](rng)
