"""Small tables of facts that facts.py turns into questions and answers."""


def table(text: str) -> dict[str, str]:
    """'key: value; key: value' -> a dictionary."""
    return dict(pair.strip().split(": ", 1) for pair in text.replace("\n", " ").split(";") if pair.strip())


CAPITALS = table("""France: Paris; Germany: Berlin; Italy: Rome; Spain: Madrid; Portugal: Lisbon; England: London; Scotland: Edinburgh;
Ireland: Dublin; the Netherlands: Amsterdam; Belgium: Brussels; Austria: Vienna; Switzerland: Bern; Poland: Warsaw; Greece: Athens;
Norway: Oslo; Sweden: Stockholm; Denmark: Copenhagen; Finland: Helsinki; Iceland: Reykjavik; Russia: Moscow; Ukraine: Kyiv;
Hungary: Budapest; Romania: Bucharest; Bulgaria: Sofia; Turkey: Ankara; Egypt: Cairo; Kenya: Nairobi; Nigeria: Abuja;
South Africa: Pretoria; Morocco: Rabat; Ethiopia: Addis Ababa; Ghana: Accra; Japan: Tokyo; China: Beijing; India: New Delhi;
South Korea: Seoul; Thailand: Bangkok; Vietnam: Hanoi; Indonesia: Jakarta; Malaysia: Kuala Lumpur; the Philippines: Manila;
Australia: Canberra; New Zealand: Wellington; Canada: Ottawa; the United States: Washington; Mexico: Mexico City; Brazil: Brasilia;
Argentina: Buenos Aires; Chile: Santiago; Peru: Lima; Colombia: Bogota; Cuba: Havana; Iran: Tehran; Iraq: Baghdad; Israel: Jerusalem;
Saudi Arabia: Riyadh; Pakistan: Islamabad; Nepal: Kathmandu; the Czech Republic: Prague; Croatia: Zagreb""")

OPPOSITES = table("""hot: cold; big: small; up: down; day: night; happy: sad; fast: slow; old: young; open: closed; light: dark; wet: dry;
hard: soft; high: low; left: right; early: late; full: empty; good: bad; strong: weak; loud: quiet; rich: poor; long: short;
in: out; black: white; clean: dirty; sweet: sour; thick: thin; brave: afraid; near: far; easy: difficult; first: last; yes: no""")

SOUNDS = table("""dog: woof; cat: meow; cow: moo; sheep: baa; pig: oink; duck: quack; hen: cluck; rooster: cock-a-doodle-doo; horse: neigh;
lion: roar; frog: ribbit; bee: buzz; snake: hiss; owl: hoot; mouse: squeak; donkey: hee-haw; bird: tweet; wolf: howl""")

BABIES = table("""dog: a puppy; cat: a kitten; cow: a calf; sheep: a lamb; pig: a piglet; duck: a duckling; hen: a chick; horse: a foal;
lion: a cub; frog: a tadpole; bear: a cub; goat: a kid; deer: a fawn; kangaroo: a joey; swan: a cygnet; goose: a gosling""")

LEGS = table("""dog: four; cat: four; bird: two; spider: eight; ant: six; bee: six; horse: four; person: two; snake: no; fish: no; octopus: no;
chicken: two; cow: four; butterfly: six; elephant: four""")

HOMES = table("""bird: in a nest; bee: in a hive; fish: in the water; bear: in a cave; rabbit: in a burrow; spider: in a web; dog: in a kennel;
horse: in a stable; lion: in the savanna; penguin: in the cold south; monkey: in the trees; camel: in the desert; king: in a palace;
polar bear: in the cold north; kangaroo: in Australia; panda: in China; frog: near ponds""")

EATS = table("""rabbit: grass and carrots; cow: grass; lion: meat; panda: bamboo; monkey: fruit and nuts; mouse: seeds and cheese; cat: meat and fish;
dog: meat and dog food; horse: grass and hay; bear: fish, berries and honey; bird: seeds and worms; frog: insects; koala: leaves;
squirrel: nuts; shark: fish; giraffe: leaves; caterpillar: leaves; pig: almost everything""")

COLORS = table("""the sky: blue; grass: green; snow: white; a banana: yellow; a lemon: yellow; blood: red; a strawberry: red; a tomato: red;
an orange: orange; a carrot: orange; coal: black; milk: white; chocolate: brown; the sun: yellow; a frog: green; an elephant: gray;
the sea: blue; a pumpkin: orange; a leaf: green; the night sky: black; a flamingo: pink; sand: yellow""")

MIXES = table("""red and yellow: orange; blue and yellow: green; red and blue: purple; red and white: pink; black and white: gray""")

RHYMES = table("""cat: hat; dog: frog; house: mouse; tree: bee; star: car; moon: spoon; night: light; day: play; sun: fun; boat: goat; cake: lake;
king: ring; bear: chair; fox: box; rain: train; snow: blow; book: cook; bell: well; hen: pen; fish: dish; sky: fly; nose: rose; bed: red""")

PLURALS = table("""mouse: mice; child: children; foot: feet; tooth: teeth; man: men; woman: women; goose: geese; cat: cats; dog: dogs; box: boxes;
baby: babies; leaf: leaves; sheep: sheep; fish: fish; wolf: wolves; story: stories; house: houses; tree: trees""")

PASTS = table("""go: went; see: saw; eat: ate; run: ran; take: took; come: came; give: gave; find: found; have: had; sing: sang; make: made;
say: said; write: wrote; know: knew; sleep: slept; play: played; walk: walked; fly: flew; swim: swam; think: thought""")

LANGUAGES = table("""France: French; Germany: German; Italy: Italian; Spain: Spanish; England: English; Japan: Japanese; China: Chinese; Russia: Russian;
Brazil: Portuguese; Mexico: Spanish; Poland: Polish; Greece: Greek; Sweden: Swedish; Egypt: Arabic; Portugal: Portuguese""")

CONTINENTS = table("""France: Europe; Germany: Europe; Italy: Europe; Spain: Europe; Japan: Asia; China: Asia; India: Asia; Egypt: Africa; Kenya: Africa;
Nigeria: Africa; Brazil: South America; Peru: South America; Canada: North America; Mexico: North America; Poland: Europe; Thailand: Asia""")

DEFINITIONS = table("""a dog: an animal with four legs that barks and is often kept as a pet; a cat: a small furry animal that says meow and catches mice;
a bird: an animal with wings and feathers that lays eggs; a fish: an animal that lives in water and breathes with gills;
a tree: a tall plant with a trunk, branches and leaves; a flower: the colorful part of a plant; a river: a long stream of water that flows to the sea;
a lake: a large area of water with land all around it; an island: land with water on all sides; a mountain: a very high hill;
a forest: a place with many trees; a desert: a dry place with very little rain; the sun: the star that gives us light and warmth;
the moon: a ball of rock that goes around the Earth; a star: a huge ball of hot gas far away in space; the Earth: the planet we live on;
a planet: a large ball that goes around a star; rain: water that falls from the clouds; snow: frozen water that falls in soft white flakes;
ice: frozen water; wind: moving air; a cloud: many tiny drops of water in the sky; a rainbow: a bow of colors in the sky when sun and rain meet;
a storm: bad weather with strong wind and rain; a house: a building where people live; a school: a place where children learn;
a hospital: a place where doctors help sick people; a library: a place with many books to read; a farm: a place where food is grown and animals live;
a city: a very large town; a village: a small group of houses in the country; a book: pages with words or pictures to read;
a clock: a thing that shows the time; a bicycle: a thing with two wheels that you ride; a car: a machine with four wheels that carries people;
a train: a long row of wagons that runs on rails; a plane: a machine with wings that flies; a boat: a small ship that moves on water;
a computer: a machine that works with information; a robot: a machine that can do work by itself; a telephone: a thing for talking to people far away;
a king: a man who rules a country; a queen: a woman who rules a country; a teacher: a person who helps others learn;
a doctor: a person who helps sick people get well; a farmer: a person who grows food and keeps animals; a baker: a person who makes bread and cakes;
a pilot: a person who flies a plane; a sailor: a person who works on a ship; a pirate: a robber at sea; a knight: a soldier of old times who rode a horse;
a dragon: a big animal in stories that breathes fire; a friend: a person you like and trust; a family: a group of people who belong together;
love: a strong warm feeling for someone; happiness: the feeling of being glad; courage: being brave when you are afraid; a dream: what you see when you sleep;
music: sounds put together in a beautiful way; a song: words with music; a story: words that tell what happened to someone; a poem: a text with rhythm and often with rhymes;
bread: food made of flour and water, baked in an oven; cheese: food made from milk; honey: a sweet food made by bees; milk: a white drink that comes from cows;
an apple: a round fruit that grows on trees; a banana: a long yellow fruit; a carrot: a long orange vegetable; soup: a hot food that you eat with a spoon;
an elephant: a very big gray animal with a long trunk; a lion: a big wild cat with a mane; a whale: a very big animal that lives in the sea;
a bee: an insect that makes honey; a butterfly: an insect with big colorful wings; a spider: a small animal with eight legs that makes webs;
a penguin: a black and white bird that swims and cannot fly; an owl: a bird that hunts at night; a frog: a small green animal that jumps and swims;
a horse: a big animal that people can ride; a cow: a big animal that gives milk; a rabbit: a small animal with long ears; a bear: a big strong animal with thick fur;
winter: the coldest time of the year; summer: the warmest time of the year; spring: the time of year when flowers begin to grow; autumn: the time of year when leaves fall;
water: a clear liquid that we drink; fire: hot bright flames; sand: very tiny pieces of rock; gold: a yellow metal that is worth a lot of money;
a ball: a round thing to play with; a hat: a thing to wear on your head; a chair: a thing to sit on; a bed: a thing to sleep in; a spoon: a thing to eat soup with;
a key: a thing that opens a lock; an umbrella: a thing that keeps you dry in the rain; a mirror: a glass in which you can see yourself; a map: a picture that shows where places are;
a language model: a computer program that writes text word by word; an animal: a living thing that can move and eat; a plant: a living thing that grows in the ground""")

HOW_TO = table("""make tea: Boil some water, pour it over a tea bag in a cup, and wait three minutes. Then take out the bag and enjoy it;
make a sandwich: Take two slices of bread, put cheese or ham between them, and cut the sandwich in half;
brush my teeth: Put a little toothpaste on your brush, brush all your teeth for two minutes, and rinse with water;
wash my hands: Wet your hands, rub them with soap for twenty seconds, rinse them, and dry them;
plant a seed: Make a small hole in the soil, put in the seed, cover it, and give it water and light;
boil an egg: Put the egg in boiling water and wait about eight minutes. Then cool it in cold water;
make a paper plane: Fold a sheet of paper in the middle, fold the corners in to make a point, and fold down the wings;
fall asleep: Turn off the lights, lie down, breathe slowly, and think of something nice;
make a friend: Smile, say hello, ask a question, and listen to the answer;
learn to read: Start with the letters, then short words, and read a little every day;
learn English: Read simple stories, learn a few new words every day, and speak as often as you can;
clean my room: Put your things away, throw out the trash, wipe the table, and sweep the floor;
make pancakes: Mix flour, milk and eggs, pour a little into a hot pan, and turn the pancake when it is brown below;
draw a cat: Draw a circle for the head, two triangles for the ears, then add eyes, a nose, whiskers and a body;
stay healthy: Eat fruit and vegetables, move every day, drink water, and sleep well;
make a snowman: Roll three balls of snow, put them on top of each other, and add a carrot for the nose;
make lemonade: Squeeze two lemons, add water and a little sugar, and stir well;
fix a flat tire: Take off the wheel, find the hole, cover it with a patch, and pump up the tire again;
write a letter: Start with a greeting, write what you want to say, and end with your name;
be happy: Do something you love, spend time with friends, and be thankful for small things;
ride a bike: Sit down, hold the handles, push the pedals, and look ahead. You will fall a few times, and then it gets easy;
cook rice: Put one cup of rice and two cups of water in a pot, bring it to a boil, and let it cook slowly for fifteen minutes;
make hot chocolate: Warm some milk, stir in cocoa and sugar, and pour it into a cup;
train a dog: Use short words, be patient, and give a treat when the dog does well;
save money: Write down what you spend, buy only what you need, and put a little away every week;
tie my shoes: Cross the laces, pull one under, make two loops, cross the loops, and pull them tight;
calm down: Breathe in slowly, count to ten, and breathe out again;
take care of a plant: Give it light, water it when the soil is dry, and keep it warm""")

COMMON = {
    "How many days are there in a week?": ("seven", "There are seven days in a week."),
    "How many months are there in a year?": ("twelve", "There are twelve months in a year."),
    "How many days are in a year?": ("365", "There are 365 days in a year."),
    "How many hours are in a day?": ("24", "There are 24 hours in a day."),
    "How many minutes are in an hour?": ("60", "There are 60 minutes in an hour."),
    "How many seconds are in a minute?": ("60", "There are 60 seconds in a minute."),
    "How many letters are in the alphabet?": ("26", "There are 26 letters in the English alphabet."),
    "How many fingers do people have?": ("ten", "People have ten fingers."),
    "How many wheels does a car have?": ("four", "A car has four wheels."),
    "How many wheels does a bicycle have?": ("two", "A bicycle has two wheels."),
    "How many seasons are there?": ("four", "There are four seasons: spring, summer, autumn and winter."),
    "What are the seasons?": ("", "The four seasons are spring, summer, autumn and winter."),
    "What are the days of the week?": ("", "The days are Monday, Tuesday, Wednesday, Thursday, Friday, Saturday and Sunday."),
    "What are the months of the year?": (
        "",
        "The months are January, February, March, April, May, June, July, August, September, October, November and December.",
    ),
    "What is the biggest animal?": ("the blue whale", "The biggest animal is the blue whale."),
    "What is the tallest animal?": ("the giraffe", "The tallest animal is the giraffe."),
    "What is the fastest animal on land?": ("the cheetah", "The fastest animal on land is the cheetah."),
    "What is the highest mountain?": ("Mount Everest", "The highest mountain in the world is Mount Everest."),
    "What is the biggest planet?": ("Jupiter", "The biggest planet is Jupiter."),
    "What planet do we live on?": ("Earth", "We live on the planet Earth."),
    "How many planets are there?": ("eight", "There are eight planets around the sun."),
    "What is the biggest ocean?": ("the Pacific", "The biggest ocean is the Pacific Ocean."),
    "Where does the sun rise?": ("in the east", "The sun rises in the east."),
    "Where does the sun set?": ("in the west", "The sun sets in the west."),
    "What do bees make?": ("honey", "Bees make honey."),
    "What do cows give us?": ("milk", "Cows give us milk."),
    "Why is the sky blue?": ("", "The sky is blue because the air scatters blue light more than red light."),
    "Why do birds sing?": ("", "Birds sing to find a friend and to say that a place is theirs."),
    "Why do we sleep?": ("", "We sleep so that our body and our mind can rest."),
    "Why do leaves fall?": ("", "Trees drop their leaves in autumn to save water in the cold winter."),
    "Why is the sea salty?": ("", "Rivers carry salt from the rocks into the sea."),
    "Where does rain come from?": ("from the clouds", "Rain comes from the clouds."),
    "What is ice made of?": ("water", "Ice is made of frozen water."),
    "Which animal has a trunk?": ("the elephant", "The elephant has a trunk."),
    "Which animal has a long neck?": ("the giraffe", "The giraffe has a long neck."),
    "Can penguins fly?": ("no", "No, penguins cannot fly, but they swim very well."),
    "Can fish fly?": ("no", "Most fish cannot fly. They swim in the water."),
    "Can dogs swim?": ("yes", "Yes, most dogs can swim."),
    "Is the sun a star?": ("yes", "Yes, the sun is a star."),
    "Is a whale a fish?": ("no", "No, a whale is a mammal."),
    "Who wrote Romeo and Juliet?": ("William Shakespeare", "William Shakespeare wrote Romeo and Juliet."),
    "Who was the first man on the moon?": ("Neil Armstrong", "Neil Armstrong was the first man on the moon."),
    "Say the alphabet.": ("", "A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T, U, V, W, X, Y, Z."),
    "What do you call a doctor for animals?": ("a vet", "A doctor for animals is called a vet."),
    "What do plants need to grow?": ("water and light", "Plants need water, light and air to grow."),
    "What should I eat for breakfast?": ("", "You could have bread with cheese, some fruit, or a bowl of oats with milk."),
    "What should I cook tonight?": ("", "How about soup with bread, or pasta with tomatoes?"),
    "What should I do today?": ("", "You could take a walk, read a book, or call a friend."),
    "What can I do when it rains?": ("", "You can read a book, paint a picture, or bake a cake."),
    "What is a good name for a dog?": ("Max", "Max is a good name for a dog. Buddy and Bella are nice, too."),
    "What is a good name for a cat?": ("Luna", "Luna is a good name for a cat. Milo and Daisy are nice, too."),
}

LISTS = {
    "fruits": ["apples", "bananas", "pears", "oranges", "cherries", "grapes", "plums", "lemons"],
    "vegetables": ["carrots", "peas", "beans", "potatoes", "onions", "tomatoes", "cabbage"],
    "animals": ["dogs", "cats", "horses", "lions", "bears", "rabbits", "elephants"],
    "farm animals": ["cows", "pigs", "sheep", "hens", "horses", "goats"],
    "colors": ["red", "blue", "green", "yellow", "orange", "purple", "black", "white"],
    "countries": ["France", "Japan", "Brazil", "Egypt", "Canada", "India", "Italy"],
    "birds": ["owls", "robins", "eagles", "ducks", "penguins", "swans"],
    "planets": ["Mercury", "Venus", "Earth", "Mars", "Jupiter", "Saturn"],
    "sports": ["football", "tennis", "swimming", "running", "basketball"],
    "drinks": ["water", "milk", "tea", "coffee", "juice"],
    "flowers": ["roses", "tulips", "daisies", "lilies", "sunflowers"],
    "insects": ["ants", "bees", "beetles", "flies", "butterflies"],
    "cities": ["Paris", "London", "Tokyo", "Rome", "Cairo", "Berlin"],
    "things in a kitchen": ["a stove", "a table", "spoons", "plates", "a sink"],
    "toys": ["a ball", "a doll", "a kite", "blocks", "a teddy bear"],
}
