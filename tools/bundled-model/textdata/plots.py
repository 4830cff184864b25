"""The plots: for each theme a list of steps, each step a list of ways to say it. Slots as in grammar.fill."""

OPENINGS = [
    "Once upon a time, there was {alook} {K} named {N}.",
    "Once upon a time, there was {atrait} {K} named {N}. {he} lived {home}.",
    "Once upon a time, {alook} {K} named {N} lived {home}.",
    "There once was {atrait} {K} named {N}. {he} lived {home}.",
    "Long ago, {atrait} {K} named {N} lived {home}.",
    "{N} was {alook} {K} who lived {home}.",
]
SECOND = [
    "{N} loved to {love}.",
    "Every day, {he} loved to {love}.",
    "{he} was very {trait} and loved to {love}.",
    "{he} liked to {love} with {his} friends.",
]
ENDINGS = [
    "And they all lived happily ever after.",
    "That night, {N} went to sleep with a smile.",
    "It was the best day ever.",
    "{N} never forgot that day.",
    "The end.",
    "{N} was very happy.",
    "And from then on, {N} was never sad again.",
]

# These bring the hero to {place}; a step of ARRIVALS follows. Users often begin a text like this.
OUTINGS = [
    "One day, {aK} named {N} went to {place}.",
    "One {weather} day, {N} the {K} went to {place}.",
    "{N} was {alook} {K}. One day, {he} walked to {place}.",
    "One day, {N} the {K} went to {place} with {his} [mother|father|sister|brother|friends].",
    "It was {aweather} day, and {N} the {K} was playing near {place}.",
    "One morning, {N} the {K} woke up early and ran to {place}.",
]
# For a hero without a name, whose name then is "the farmer".
NAMELESS = [
    'The {look} {K} looked at {his} [horse|dog|cat|friend|house|garden|mother] and said, "{saying}"',
    '"{saying}" said the {look} {K}.',
    '"{saying}" said the {K} to {his} [dog|cat|friend|mother|father].',
    "There once was {alook} {K} who lived {home}.",
    "There was {atrait} {K} who loved to {love}.",
    "{alook} {K} was [sitting|walking|standing] near {place}.",
    "The {look} {K} was very {trait}.",
    "The {K} looked out of the window and smiled.",
    "The {look} {K} walked slowly to {place}.",
    "In a [small house|big forest|little village] there was {alook} {K}.",
]
SAYINGS = [
    "Let us go to {place}!",
    "What a fine day!",
    "I am so hungry!",
    "What shall we do today?",
    "Today will be a good day!",
    "It is time to go!",
    "Come with me!",
    "Do not be afraid!",
    "Where are you going?",
    "I have a surprise for you!",
]
# Plots in which nobody calls the hero by name.
NAMELESS_THEMES = ["lost", "sharing", "finding", "learning", "storm", "honesty", "pride", "adventure", "losing"]

DAY = "[One day,|One {weather} day,|One {weather} morning,|One morning,|One afternoon,]"

PLOTS = {
    "lost": [
        [
            DAY + " {N} went for a walk to {place}. {he} walked and walked until {he} did not know the way home.",
            DAY + " {N} followed a [butterfly|bright light|strange sound] to {place}. Soon {he} was lost.",
            DAY + " {N} went too far from home and got lost near {place}.",
        ],
        [
            '"Where am I?" said {N}. {he} began to cry.',
            "{N} felt very scared. It was getting dark.",
            '"I want to go home," {he} said in a small voice.',
            "{he} looked left and right, but everything looked strange.",
        ],
        [
            'Just then, {aFK} named {F} came by. "Do not be afraid," said {F}. "I know the way. Follow me."',
            '{aFK} named {F} heard {him}. "Why are you sad?" asked {F}. "I am lost," said {N}. "I will help you," said {F}.',
            'Then {he} met {aFK} called {F}. "I can show you the way home," {F} said.',
        ],
        [
            "They walked together [under the moon|over the hill|along the path] until {N} saw {his} home.",
            "{F} took {N} all the way back home. {his} family was so happy to see {him}.",
            "Step by step, they found the way. At last {N} was home again.",
        ],
        [
            '"Thank you, {F}!" said {N}. They became best friends.',
            "{N} gave {F} a big hug and {food} to say thank you.",
            'From that day on, {N} and {F} were good friends.',
        ],
    ],
    "sharing": [
        [
            DAY + " {N} had {food}. {he} wanted to eat it all alone.",
            DAY + " {N} found {food} near {place}. It looked so good!",
            DAY + " {N} was going to eat {food} for lunch.",
        ],
        [
            'Then {aFK} named {F} came by. "I am so hungry," said {F}. "I have had nothing to eat today."',
            "But then {he} saw {F}, {aFK}. {F} looked sad and hungry.",
            '{F} the {FK} sat down beside {him}. "May I have a little?" asked {F}.',
        ],
        [
            "{N} thought about it. {he} knew how it felt to be hungry.",
            'At first {N} said no. But when {F} began to cry, {he} felt sorry.',
            "{N} looked at {thefood}, and then {he} looked at {F}.",
        ],
        [
            '"Here," said {N}, "you can have half." {F} was so happy.',
            '{N} smiled. "Let us share it," {he} said. They ate together in the sun.',
            "So {N} gave half of it to {F}, and they sat and ate together.",
        ],
        [
            "The next day, {F} came back with {treasure} for {N}.",
            '"You are very kind," said {F}. From then on they shared everything.',
            "It tasted even better because they shared it.",
        ],
    ],
    "finding": [
        [
            DAY + " {N} went to {place}. There {he} found {treasure} [in the sand|under a leaf|behind a rock].",
            DAY + " {N} saw something bright near {place}. It was {treasure}!",
            DAY + " while {he} was playing near {place}, {N} found {treasure}.",
        ],
        [
            '"Whose is this?" {he} asked. {he} looked around, but nobody was there.',
            "{N} was very happy. But then {he} thought that someone might miss it.",
            'It was very pretty, and {N} wanted to keep it. "But it is not mine," {he} said.',
        ],
        [
            "So {he} went from door to door and asked everyone. At last {he} met {F} the {FK}, who was crying.",
            "On the way home {he} met {aFK} named {F}. {F} was looking for something on the ground.",
            "Soon {he} heard someone cry. It was {F}, {aFK}.",
        ],
        [
            '"I lost {treasure}," said {F}. "Here it is!" said {N}. {F} jumped for joy.',
            '{N} asked, "Is this yours?" "Yes!" said {F}. "Thank you so much!"',
            '"Did you lose this?" asked {N}, and held out {thetreasure}. {F} smiled at once.',
        ],
        [
            "{F} was so thankful that {fhe} gave {N} {food}.",
            "They became friends and played together every day.",
            "{N} went home with a warm feeling in {his} heart.",
        ],
    ],
    "losing": [
        [
            DAY + " {N} could not find {his} {item}. It was gone!",
            DAY + " {N} was at {place}. When {he} came home, {his} {item} was gone.",
            "{N} had {ashade} {item} and took it everywhere. But one day {he} lost it near {place}.",
        ],
        [
            '"Where is my {item}?" {he} cried.',
            "{he} looked under the bed and behind the door, but it was not there.",
            "{N} was very sad, because {he} loved that {item}.",
        ],
        [
            '{his} friend {F} the {FK} said, "I will help you look for it."',
            'Then {F} the {FK} came by. "Why are you crying?" asked {F}. "I lost my {item}," said {N}.',
            "{he} asked {aFK} named {F}, and they looked for it together.",
        ],
        [
            "They looked everywhere. At last {F} saw the {item} under a tree.",
            'After a long time, {F} called, "Here it is!" The {item} was lying in the grass.',
            "They went back to {place}, and there it was, behind a big stone.",
        ],
        [
            '"Thank you, {F}!" said {N}, and gave {fhim} a big hug.',
            "{N} put on a big smile and held the {item} tight.",
            '"I will take better care of it now," said {N}.',
        ],
    ],
    "friendship": [
        [
            "But {N} had no friends, and {he} felt lonely.",
            "But {N} was sad, because {he} had nobody to play with.",
            "{N} wished for a friend more than anything.",
        ],
        [
            DAY + " {he} went to {place} and saw {aFK} sitting all alone.",
            DAY + " {he} met {aFK} near {place}.",
            DAY + " {N} heard a soft voice near {place}. It was {aFK}.",
        ],
        [
            '"Hello," said {N}. "My name is {N}. What is your name?" "I am {F}," said the {FK}.',
            '"Hi, I am {F}," said the {FK}. "Do you want to play with me?" "Yes, please!" said {N}.',
            "At first they were both shy. Then the {FK} smiled and said, \"I am {F}. Let us play!\"",
        ],
        [
            "They played [hide and seek|tag|games] until the sun went down.",
            "All day long they ran and laughed and told each other stories.",
            "{F} showed {N} {treasure}, and {N} showed {F} how to {love}.",
        ],
        [
            "When it was time to go home, {N} asked, \"Will you come back tomorrow?\" \"Of course,\" said {F}.",
            "From that day on, {N} and {F} met every day.",
            "Now {N} was not lonely any more, because {he} had a friend.",
        ],
    ],
    "learning": [
        [
            "{N} wanted to learn to {skill}, but it was very hard.",
            "There was one thing {N} could not do. {he} could not {skill}.",
            "{N} had a dream. {he} wanted to {skill}.",
        ],
        [
            DAY + ' {he} tried, but it went wrong. "I will never learn it," said {N}.',
            DAY + " {he} tried again and again, but {he} could not do it. The others laughed at {him}.",
            DAY + " {he} tried for the first time and fell down. It hurt, and {N} wanted to stop.",
        ],
        [
            '{F}, an old and wise {FK}, saw {him}. "Do not give up," said {F}. "Try a little every day."',
            '{his} friend {F} the {FK} said, "I will help you. We can practice together."',
            '"I could not do it at first, either," said {F} the {FK}. "You just need to practice."',
        ],
        [
            "So {N} practiced every morning and every evening.",
            "So {he} tried again the next day, and the next day, and the day after that.",
            "{N} worked hard. Every day it got a little easier.",
        ],
        [
            'At last {he} could {skill}! "I did it!" {he} shouted.',
            "After a week, {N} could {skill} better than anyone.",
            'One day it worked. {F} clapped and said, "I knew you could do it!"',
        ],
    ],
    "storm": [
        [
            DAY + " dark clouds came, and a big storm began.",
            "One night there was a great storm. The wind blew and the rain fell.",
            DAY + " the sky turned black, and it began to rain very hard.",
        ],
        [
            "{N} ran to hide, but then {he} heard a cry for help near {place}.",
            'From {place} came a voice. "Help! Help!" it cried.',
            "{N} was safe and dry. Then {he} saw someone out in the rain near {place}.",
        ],
        [
            "It was {F}, a little {FK}, who could not get home.",
            "A small {FK} named {F} was stuck under a branch.",
            "It was {aFK} named {F}. {fhe} was cold and wet and scared.",
        ],
        [
            "{N} was afraid, but {he} was brave. {he} ran out and helped {F}.",
            '"Hold on to me!" said {N}, and {he} pulled {F} out.',
            '{N} did not wait. "Come with me," {he} said. "You can stay at my home."',
        ],
        [
            "They sat together by the fire and waited until the storm was over. In the morning there was a big rainbow.",
            '"You saved me," said {F}. "You are the bravest {K} I know."',
            "When the sun came out again, they were best friends.",
        ],
    ],
    "honesty": [
        [
            DAY + " {N} was playing near {place} and broke the [window|cup|pot|chair] of {F} the {FK}. Nobody saw it.",
            DAY + " {N} took {food} from the table of {F} the {FK} and ate it. Nobody saw {him}.",
            DAY + " {N} lost {treasure} that belonged to {F} the {FK}.",
        ],
        [
            '"Who did this?" asked {F}. {N} said nothing and ran away.',
            "{N} was afraid. {he} hid and did not tell anyone.",
            '"It was not me," said {N}. But {he} felt bad inside.',
        ],
        [
            "That night, {N} could not sleep. {he} knew that {he} had to tell the truth.",
            "All day long {N} felt sad. At last {he} made up {his} mind.",
            "The lie felt heavy, like a stone.",
        ],
        [
            'The next morning {he} went to {F}. "It was me," {he} said. "I am very sorry."',
            'So {N} told {F} the truth. "Please forgive me," {he} said.',
            '{he} went to {F} and said, "I did it. I will make it good again."',
        ],
        [
            '{F} was not angry. "Thank you for telling me," said {F}.',
            '{F} smiled and gave {N} a hug. "It takes courage to tell the truth," {fhe} said.',
            "{F} forgave {him}, and together they put everything right.",
        ],
    ],
    "birthday": [
        [
            "It was {N}'s birthday, but nobody said a word.",
            DAY + " {N} woke up and smiled. It was {his} birthday!",
            "Tomorrow was {N}'s birthday, and {he} was very excited.",
        ],
        [
            "{he} looked everywhere, but nobody was at home.",
            "{he} looked for {his} friends, but {he} could not find anyone.",
            '"Has everyone forgotten me?" thought {N}. {he} felt sad.',
        ],
        [
            "So {N} walked slowly to {place}.",
            "Then {he} heard a funny sound near {place}.",
            "In the evening, {he} saw a light near {place}.",
        ],
        [
            '"Surprise!" cried {F} the {FK}. There was a big cake with candles.',
            '{F} the {FK} and all {his} friends jumped out. "Happy birthday, {N}!" they shouted.',
            "There was {F} the {FK}, with music and lights and a huge cake.",
        ],
        [
            "{F} gave {N} {treasure}. {N} loved it.",
            "They sang and danced and ate cake until late at night.",
            '"You are the best friends in the world," said {N}.',
        ],
    ],
    "pride": [
        [
            "{N} thought {he} was better than everyone else.",
            '"Nobody is as [fast|strong|clever] as I am," {N} always said.',
            "{N} liked to boast about how [fast|strong|clever] {he} was.",
        ],
        [
            DAY + ' {he} met {F} the {FK}. "You are so small and slow," laughed {N}.',
            DAY + " {he} laughed at {aFK} named {F}.",
            DAY + ' {F} the {FK} said, "Let us have a race to {place}." {N} laughed out loud.',
        ],
        [
            "But on the way to {place}, {N} fell into a deep hole. {he} could not get out.",
            "But then {N} got stuck between two big rocks. {he} could not move.",
            "{N} ran so fast that {he} did not look where {he} was going, and {he} fell into the mud.",
        ],
        [
            "{F} heard {him} call and came to help.",
            '"Wait, I will help you," said {F}. {fhe} brought a long rope and pulled.',
            "Only {F} stopped. {F} pulled and pulled until {N} was free.",
        ],
        [
            '"I am sorry that I laughed at you," said {N}. "Thank you for helping me."',
            "{N} felt ashamed and said sorry. After that {he} never boasted again.",
            "From then on, {N} was kind to everyone, big or small.",
        ],
    ],
    "adventure": [
        [
            DAY + " {N} found an old map. It showed the way to a treasure near {place}.",
            DAY + ' {N} said, "Let us go to {place} and look for a treasure!"',
            "{N} had always wanted to see {place}. " + DAY + " {he} set out to find it.",
        ],
        [
            "{he} packed {food}, and {his} friend {F} the {FK} came along.",
            "{F} the {FK} went with {him}. They crossed a river and climbed a hill.",
            "Together with {his} friend {F} the {FK}, {he} went through the dark and over the stones.",
        ],
        [
            "It was a long way, and they got tired. But they did not stop.",
            "Suddenly they heard a loud noise. They were scared, but it was only [an owl|the wind|a frog].",
            "The path was steep, but they helped each other.",
        ],
        [
            "At last they saw it: {treasure}, hidden under a tree!",
            "There they found a box. Inside was {treasure}.",
            "In the end they found {treasure}. It was shining in the light.",
        ],
        [
            '"We did it!" they cried, and they danced for joy.',
            "They carried it home and showed it to everyone.",
            '"The best treasure is a good friend," said {N}.',
        ],
    ],
    "bedtime": [
        [
            "One night, {N} could not sleep.",
            "It was late, but {N} was still awake.",
            "The moon was up, and it was time for bed. But {N} was not sleepy at all.",
        ],
        [
            "{he} turned to the left and {he} turned to the right.",
            "{he} tried to count the stars, but there were too many.",
            "{he} looked out of the window at the dark night.",
        ],
        [
            'Then {aFK} named {F} came to the window. "Why are you awake?" asked {F}. "I cannot sleep," said {N}.',
            '{his} friend {F} the {FK} sat down beside {him}. "Close your eyes," said {F}.',
            '"I will stay with you," said {his} friend {F} the {FK}.',
        ],
        [
            "{F} sang a soft song about the moon and the sea.",
            "{F} told {him} a story about a land where everything is made of [clouds|sugar|flowers].",
            "They listened to the wind and watched the moon.",
        ],
        [
            "Slowly, {N} closed {his} eyes. Soon {he} was fast asleep.",
            "Before it was over, {N} was dreaming.",
            '"Good night, {N}," whispered {F}.',
        ],
    ],
    "helping": [
        [
            DAY + " {N} saw {aFK} near {place}. It was {F}, and {fhe} had hurt {fhis} [leg|foot|back].",
            DAY + " {F} the {FK} was trying to carry a heavy [bag|box|stone], but it was too big.",
            DAY + " {F} the {FK} fell into a hole near {place} and could not get out.",
        ],
        [
            '"Please help me," said {F}. The others were too busy and went on.',
            "Many went by, but nobody stopped.",
            '"Do not worry," said {N}. "I will help you."',
        ],
        [
            "{N} thought hard. Then {he} had an idea.",
            "{N} stopped at once. {he} was not very big, but {he} was clever.",
            "{N} did not know what to do at first. Then {he} called all {his} friends.",
        ],
        [
            "They worked together until everything was all right again.",
            "With the help of a long stick, {he} did it.",
            "Slowly and carefully, {N} helped {F} and brought {fhim} home.",
        ],
        [
            '"Thank you, {N}," said {F}. "One day I will help you, too."',
            "A few days later, {N} needed help, and {F} was there at once.",
            "{F} was so happy that {fhe} gave {N} {food}.",
        ],
    ],
}  # fmt: skip

# How a plot begins once an outing has brought the hero somewhere.
ARRIVALS = {
    "lost": ["{he} walked and walked until {he} did not know the way home.", "{he} followed a butterfly, and soon {he} was lost."],
    "finding": ["There {he} found {treasure} [in the sand|under a leaf|behind a rock].", "{he} saw something bright on the ground. It was {treasure}!"],
    "sharing": ["{he} sat down and wanted to eat {food}.", "{he} was hungry and took out {food}."],
    "storm": ["Suddenly dark clouds came, and a big storm began.", "Then the sky turned black, and it began to rain very hard."],
    "losing": ["{he} played all day. When {he} came home, {his} {item} was gone.", "There {he} lost {his} {item}."],
    "helping": ["There {he} saw {aFK} named {F}, who had hurt {fhis} [leg|foot|back].", "There {F} the {FK} was trying to carry a heavy [bag|box|stone], but it was too big."],
}  # fmt: skip

LESSONS = {
    "lost": ["It is good to ask for help.", "Stay close to home, and be kind to those who are lost."],
    "sharing": ["Sharing makes everyone happy.", "It is good to share with others."],
    "finding": ["It is good to give back what is not yours.", "Honest people make good friends."],
    "losing": ["It is good to take care of your things.", "A good friend helps you look."],
    "friendship": ["Everyone needs a friend.", "A kind word can start a friendship."],
    "learning": ["Never give up.", "You can learn anything if you practice."],
    "storm": ["Be brave and help others.", "Being brave means helping even when you are afraid."],
    "honesty": ["It is always best to tell the truth.", "Telling the truth makes your heart light."],
    "birthday": ["Good friends never forget you.", "The best gift is good friends."],
    "pride": ["Do not laugh at others.", "Be kind to everyone, big or small."],
    "adventure": ["The best treasure is a good friend.", "Do not give up when the way is long."],
    "bedtime": ["A good friend helps you feel safe.", "It is easier to sleep when you feel safe."],
    "helping": ["When you help others, they will help you.", "Even small ones can be a big help."],
}
MORALS = {
    theme: [f"{{N}} learned {as_that}" for as_that in told]
    for theme, told in {
        "lost": ["that it is good to ask for help.", "not to walk too far from home."],
        "sharing": ["that sharing makes everyone happy.", "that it is good to share."],
        "finding": ["that it is good to be honest."],
        "losing": ["to take good care of {his} things."],
        "friendship": ["that a kind word can start a friendship."],
        "learning": ["that you should never give up.", "that practice makes perfect."],
        "storm": ["that it is good to be brave."],
        "honesty": ["that it is always best to tell the truth."],
        "birthday": ["that good friends never forget you."],
        "pride": ["to be kind to everyone."],
        "adventure": ["that the world is full of wonders."],
        "bedtime": ["that there is nothing to fear in the dark."],
        "helping": ["that helping others makes you happy, too."],
    }.items()
}
THEME_NAMES = {
    "lost": ["being lost", "getting lost", "someone who is lost"],
    "sharing": ["sharing", "someone who shares"],
    "finding": ["finding something", "being honest"],
    "losing": ["losing something", "a lost toy"],
    "friendship": ["friendship", "friends", "making a new friend"],
    "learning": ["learning something new", "never giving up", "school"],
    "storm": ["a storm", "being brave", "the rain"],
    "honesty": ["telling the truth", "honesty", "a lie"],
    "birthday": ["a birthday", "a birthday party", "a surprise"],
    "pride": ["someone who boasts", "a race", "being kind"],
    "adventure": ["an adventure", "a treasure", "a journey"],
    "bedtime": ["the night", "sleeping", "the moon and the stars"],
    "helping": ["helping others", "helping a friend", "kindness"],
}
