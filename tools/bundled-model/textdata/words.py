"""Lists that the story maker draws from: heroes, names, places, things.

The animals and names are many, and a part of the names that users bring is made up, so that the model learns to take
over what it reads instead of a few heroes by heart.
"""

import random

ANIMALS = """dog cat rabbit fox bear mouse lion tiger elephant monkey horse cow pig sheep goat duck hen chicken rooster goose
owl eagle parrot robin crow sparrow penguin swan turtle tortoise frog toad snake lizard crocodile fish shark whale dolphin
octopus crab snail butterfly bee ant spider beetle ladybug dragonfly caterpillar worm deer moose wolf squirrel hedgehog
mole badger otter beaver seal giraffe zebra hippo rhino camel donkey panda koala kangaroo bat hamster puppy kitten lamb
pony raccoon skunk peacock flamingo ostrich pigeon seagull starfish jellyfish gorilla cheetah leopard hyena llama
dinosaur dragon unicorn alligator alpaca antelope armadillo baboon bison boar buffalo bull canary cardinal catfish
chameleon chipmunk clownfish cobra cricket cuckoo dormouse dove duckling eel emu falcon ferret finch firefly flea
gazelle gecko gnu grasshopper gull hare hawk heron hummingbird ibis iguana jackal jaguar jay kingfisher kiwi lemur
lobster locust lynx magpie manatee marmot meerkat mongoose moth mule newt nightingale ocelot opossum orangutan ox
oyster panther partridge pelican piglet platypus porcupine puffin puma quail ram rat raven reindeer salamander
salmon scorpion seahorse shrew shrimp sloth squid stork swallow tapir termite trout tuna turkey viper vulture walrus
wasp weasel woodpecker yak calf foal fawn cub chick tadpole phoenix mermaid monster troll elf ghost""".split()

PEOPLE_HE = """boy king prince farmer fisherman baker sailor pirate wizard knight giant grandfather painter shepherd
blacksmith captain carpenter clown cook cowboy detective driver emperor hunter inventor juggler magician miller
miner monk musician pilot postman soldier tailor uncle astronaut firefighter policeman butcher""".split()
PEOPLE_SHE = """girl queen princess teacher doctor witch grandmother dancer nurse gardener fairy singer shopkeeper
actress artist aunt ballerina duchess explorer librarian mother scientist sister writer waitress weaver beekeeper
superhero student potter reporter""".split()
THINGS = """robot train boat car bus tree cloud star snowman kite balloon teddy-bear doll clock lamp umbrella rocket
plane tractor ball pencil shoe hat bicycle ship truck flower pumpkin candle moon raindrop snowflake house bridge
spoon cup teapot book box chair table drum bell broom button carrot apple potato cookie pebble leaf key lantern
mirror paintbrush pillow puppet scarf sock spaceship toothbrush windmill helicopter computer""".split()

NAMES_HE = """Max Tom Ben Sam Leo Jack Tim Rex Finn Oscar Toby Milo Charlie Jim Peter Bobby Henry Theo Hugo Felix Danny Billy
Pip Oliver Lucas Noah Rusty Buddy Bruno Ted George Alfie Adam Alan Albert Alex Andy Arthur Barney Bill Bob Brian Carl
Chris Dan David Dylan Eddie Eli Eric Ethan Frank Fred Gabriel Gus Harry Ian Jacob Jake James Jason Jeff Joe John Josh
Karl Ken Kevin Larry Liam Louis Luke Mark Martin Matt Michael Mike Nathan Ned Nick Otto Patrick Paul Phil Ralph Ray
Richard Rob Robert Roger Ron Roy Ryan Scott Sean Simon Stan Steve Tony Victor Walter Will William Zach Omar Ali Ravi
Kofi Juma Diego Pablo Ivan Hans Marco Kenji Chen""".split()
NAMES_SHE = """Lily Anna Mia Emma Lucy Bella Rosie Daisy Molly Sara Ruby Ella Nina Tina Zoe Poppy Grace Amy Penny Luna Sophie
Hazel Ivy Clara Maya Kate Olive Nora Alice Jane Honey Coco Abby Ada Alma Amelia Amanda Angela Annie Ava Barbara Betty
Carla Carol Cathy Chloe Christine Cindy Dora Doris Edith Elena Eliza Emily Eva Fiona Flora Gina Gloria Hannah Heidi Helen
Holly Irene Iris Isabel Jasmine Jenny Jill Joan Judy Julia Karen Kelly Kim Laura Lea Linda Lisa Lola Maggie Margaret
Maria Marie Martha Mary May Megan Mila Nancy Nelly Olga Pam Paula Rachel Rita Rosa Sally Sandra Sarah Sofia Stella Sue
Susan Tara Vera Violet Wendy Zara Aisha Amina Priya Mei Yuki Fatima Lupita""".split()


def name_for(pronoun: str, rng: random.Random) -> str:
    """A name that goes with "he" or "she"."""
    return often_first(NAMES_HE if pronoun == "he" else NAMES_SHE, 24, rng)


def often_first(options: list[str], count: int, rng: random.Random) -> str:
    """Mostly one of the first `count`: the lists begin with what is common, and common things are learnt in fewer steps."""
    return rng.choice(options[:count] if rng.random() < 0.75 else options)


def made_up_name(pronoun: str, rng: random.Random) -> str:
    """A name that nobody has met, of two syllables."""
    starts = "b br d dr f fl g gr h j k kl l m n p pr r s sn t tr v w z".split()
    middles = "b d g k l ll m mb n nd nk p pp r rt s t v x z".split()
    ending = rng.choice(["o", "u", "us", "ik", "ert"] if pronoun == "he" else ["a", "i", "ia", "elle", "ina"])
    return f"{rng.choice(starts)}{rng.choice('aeiou')}{rng.choice(middles)}{ending}".capitalize()


def given_name(pronoun: str, rng: random.Random) -> str:
    """A name that a user brings: often made up, so that the model learns to take it over."""
    return (made_up_name if rng.random() < 0.4 else name_for)(pronoun, rng)


# Where one lives, with its preposition, and places to go to.
HOMES = [
    "on a small farm", "in a little village", "at the edge of the forest", "in a big city", "by the sea", "near a river",
    "in a quiet valley", "in a cozy little house", "on top of a green hill", "beside a blue lake", "in a sunny garden",
    "in a small town", "at the foot of a mountain", "on a little island", "near an old bridge", "behind a red barn",
]  # fmt: skip
PLACES = [
    "the park", "the forest", "the river", "the beach", "the old mill", "the market", "the meadow", "the pond", "the hill",
    "the garden", "the lake", "the playground", "the woods", "the field", "the mountain", "the bridge",
]  # fmt: skip
WATER_HOMES = ["in the deep blue sea", "in a big lake", "in a quiet bay", "near a coral reef", "under the waves"]
WATER_PLACES = ["the reef", "the old shipwreck", "the kelp forest", "the rocks", "the sandy bay", "the sea cave"]
WATER_ANIMALS = set(
    "fish shark whale dolphin octopus jellyfish starfish seal crab catfish clownfish eel lobster manatee mermaid oyster".split()
)
WATER_ANIMALS |= set("salmon seahorse shrimp squid trout tuna tadpole".split())

TRAITS = [
    "kind", "brave", "clever", "curious", "cheerful", "gentle", "friendly", "shy", "quiet", "playful", "hungry", "lazy",
    "funny", "lonely", "busy", "proud", "happy", "tiny", "silly", "helpful", "careful", "noisy", "sleepy", "polite",
]  # fmt: skip
# What users ask for and stories take over.
WISHED_TRAITS = [
    "lost", "magic", "white", "black", "wise", "wild", "poor", "rich", "lucky", "sad", "angry", "smart", "strong", "fast", "slow",
    "cute", "beautiful", "strange", "golden", "good", "nice", "bad", "evil", "hidden", "famous", "talking", "flying", "singing",
]  # fmt: skip
LOOKS = ["little", "small", "young", "big", "old", "fluffy", "tall", "round"]
PEOPLE_LOOKS = ["little", "small", "young", "big", "old", "tall"]
THING_LOOKS = ["little", "small", "old", "red", "blue", "yellow", "shiny", "tiny", "green", "new"]

LOVES = [
    "play outside", "sing songs", "look at the stars", "help others", "listen to stories", "run in the wind", "eat apples",
    "make new friends", "explore new places", "paint pictures", "watch the clouds", "dance in the rain", "collect stones",
    "smell the flowers", "play hide and seek", "count the stars", "tell jokes", "take long walks", "splash in the water",
]  # fmt: skip
THING_LOVES = ["make people smile", "see new places", "help others", "watch the children play", "look at the stars", "listen to the wind"]

TREASURES = [
    "a shiny key", "a red ball", "a small box", "a golden coin", "a blue feather", "an old map", "a silver bell", "a big seed",
    "a warm scarf", "a tiny egg", "a green stone", "a little book", "a glass marble", "a wooden whistle", "a yellow hat",
    "a pink shell", "a gold ring", "a toy car", "a bag of seeds", "a soft blanket", "a paper boat", "a black button", "a long rope",
    "a white pearl", "a broken watch", "a purple ribbon", "an orange kite", "a pair of gloves", "a music box", "a tin drum",
]  # fmt: skip
FOODS = [
    "an apple", "some bread", "a piece of cake", "some berries", "a carrot", "a big cookie", "some cheese", "a pear",
    "some nuts", "a bowl of soup", "a sandwich", "some grapes", "a banana", "a muffin", "some popcorn", "a pancake", "some honey", "a slice of pie", "a ripe plum", "a basket of strawberries",
]  # fmt: skip
SKILLS = ["swim", "fly a kite", "ride a bike", "climb a tree", "read", "sing", "dance", "whistle", "paint", "bake bread", "skate", "juggle", "play the drum"]  # fmt: skip
ITEMS = """hat ball shoe key kite book doll cap bag ring scarf mitten blanket whistle toy pencil drum balloon coat""".split()
SHADES = "red blue green yellow black white pink brown big small new old".split()
# What someone has of a shade: new pairs each time, so that they can only be copied.
POSSESSIONS = [*ITEMS, *"car boat hen cat dog fish horse cup bag box flower shirt lamp bed apple egg".split()]
WEATHER = ["sunny", "bright", "rainy", "windy", "warm", "cold", "snowy", "quiet", "fine", "foggy"]
