"""Lists that the story maker draws from: heroes, names, places, things."""

ANIMALS = """dog cat rabbit fox bear mouse lion tiger elephant monkey horse cow pig sheep goat duck hen chicken rooster goose
owl eagle parrot robin crow sparrow penguin swan turtle tortoise frog toad snake lizard crocodile fish shark whale dolphin
octopus crab snail butterfly bee ant spider beetle ladybug dragonfly caterpillar worm deer moose wolf squirrel hedgehog
mole badger otter beaver seal giraffe zebra hippo rhino camel donkey panda koala kangaroo bat hamster puppy kitten lamb
pony raccoon skunk peacock flamingo ostrich pigeon seagull starfish jellyfish gorilla cheetah leopard hyena llama
dinosaur dragon unicorn""".split()

PEOPLE_HE = "boy king prince farmer fisherman baker sailor pirate wizard knight giant grandfather painter shepherd".split()
PEOPLE_SHE = "girl queen princess teacher doctor witch grandmother dancer nurse gardener fairy singer shopkeeper".split()
THINGS = """robot train boat car bus tree cloud star snowman kite balloon teddy-bear doll clock lamp umbrella rocket
plane tractor ball pencil shoe hat bicycle ship truck flower pumpkin candle moon raindrop snowflake house bridge""".split()

NAMES_HE = """Max Tom Ben Sam Leo Jack Tim Rex Finn Oscar Toby Milo Charlie Jim Peter Bobby Henry Theo Hugo Felix Danny Billy
Pip Oliver Lucas Noah Rusty Buddy Bruno Ted George Alfie""".split()
NAMES_SHE = """Lily Anna Mia Emma Lucy Bella Rosie Daisy Molly Sara Ruby Ella Nina Tina Zoe Poppy Grace Amy Penny Luna Sophie
Hazel Ivy Clara Maya Kate Olive Nora Alice Jane Honey Coco""".split()

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
WATER_ANIMALS = {"fish", "shark", "whale", "dolphin", "octopus", "jellyfish", "starfish", "seal", "crab"}

TRAITS = [
    "kind", "brave", "clever", "curious", "cheerful", "gentle", "friendly", "shy", "quiet", "playful", "hungry", "lazy",
    "funny", "lonely", "busy", "proud", "happy", "tiny", "silly", "helpful", "careful", "noisy", "sleepy", "polite",
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
]  # fmt: skip
FOODS = [
    "an apple", "some bread", "a piece of cake", "some berries", "a carrot", "a big cookie", "some cheese", "a pear",
    "some nuts", "a bowl of soup", "some honey", "a slice of pie", "a ripe plum", "a basket of strawberries",
]  # fmt: skip
SKILLS = ["swim", "fly a kite", "ride a bike", "climb a tree", "read", "sing", "dance", "whistle", "paint", "bake bread", "skate", "juggle", "play the drum"]  # fmt: skip
WEATHER = ["sunny", "bright", "rainy", "windy", "warm", "cold", "snowy", "quiet", "fine", "foggy"]
