#!/usr/bin/env python3
"""A story grammar: small stories for children, one per line.

    python3 stories.py --seed 1 --count 10

A template is text with [a|b|c] (one of these, nested as deep as you like; an empty choice is fine)
and {slot} (a word the story fixed at its start, so that it stays the same until the end). Sentences get
their capital letter and "an" before a vowel afterwards.
"""
import argparse
import random
import re

GIRLS = 'Mia Lily Anna Rosa Nora Ella Zoe Ruby Ivy Clara Maya Tess Hana Lina Poppy Daisy Molly Bella Lucy Sara'.split()
BOYS = 'Tom Ben Sam Leo Max Finn Oscar Hugo Theo Jack Noah Eli Omar Kai Milo Toby Felix Otto Pip Tim'.split()
BEASTS = ('fox rabbit bear mouse hedgehog owl duck squirrel frog cat dog puppy kitten otter badger lamb pony turtle '
          'goose penguin elephant monkey dragon robot lion bird mole goat').split()
CHILD_ADJ = 'little|small|kind|brave|shy|clever|cheerful|curious|happy|quiet'.split('|')
COLOURS = 'red blue green yellow golden purple orange silver'.split()

LANDS = [  # (opening place, somewhere near it, another place near it)
    ('in a [green|deep|quiet|dark] forest', 'forest', 'stream'),
    ('by a [wide|slow|blue] river', 'river', 'bridge'),
    ('on a [windy|green|sunny] hill', 'hill', 'meadow'),
    ('near a [big|calm|clear] lake', 'lake', 'shore'),
    ('in a [small|little|quiet] village', 'village', 'well'),
    ('in a [small|little|cosy] house by the sea', 'beach', 'harbour'),
    ('on a [small|busy|happy] farm', 'farm', 'barn'),
    ('in a [big|noisy|busy] town', 'town', 'park'),
    ('under an old oak tree', 'oak tree', 'meadow'),
    ('in a [little|warm|cosy] house with a garden', 'garden', 'gate'),
    ('at the foot of a [tall|high|snowy] mountain', 'mountain', 'valley'),
]
THINGS = 'ball kite scarf hat boat drum lantern book bell blanket button whistle ring bucket'.split()
HIDING = ['under a bush', 'behind a big rock', 'in the tall grass', 'inside a hollow log', 'beneath the old bridge',
          'next to the well', 'under a pile of leaves', 'behind the barn', 'on a branch of a tree', 'by the garden gate',
          'in the mud', 'under a wooden bench', 'at the bottom of the hill', 'in a basket']
SKILLS = [  # (do it, doing it, how it goes wrong, kinds that can do it anyway)
    ('swim', 'swimming', 'swallowed a lot of water', 'frog duck otter turtle goose penguin robot fish'),
    ('climb the tall tree', 'climbing', 'slid down again', 'squirrel monkey cat kitten bear bird owl duck goose elephant pony'),
    ('whistle a tune', 'whistling', 'made only a funny sound', 'bird'),
    ('skate on the ice', 'skating', 'fell on the ice with a bump', 'penguin'),
    ('dance', 'dancing', 'tripped over a stone', ''),
    ('jump over the stream', 'jumping', 'landed in the water with a splash', 'frog otter duck bird owl goose'),
    ('sing a song', 'singing', 'forgot the words', 'bird'),
    ('fly a kite', 'trying', 'got the string stuck in a bush', ''),
    ('ride a bicycle', 'riding', 'fell into the soft grass', ''),
    ('bake bread', 'baking', 'burned the bread', ''),
    ('paint a picture', 'painting', 'spilled the paint', ''),
]
FEARS = [  # (the fear, when, what the friend shows, what it was)
    ('the dark', 'every night', 'look up at the stars', 'the stars were like a thousand tiny lamps'),
    ('thunder', 'when it stormed', 'count slowly after each flash', 'the storm was already moving away'),
    ('deep water', 'at the lake', 'hold on to a floating log', 'the water was cool and friendly'),
    ('the old bridge', 'on the way to the meadow', 'take one small step at a time', 'the bridge was strong and did not shake'),
    ('spiders', 'in the shed', 'sit still and watch', 'the spider was only weaving a pretty web'),
    ('loud noises', 'when the wind banged the door', 'take three slow breaths', 'it was only the wind playing with the door'),
    ('high places', 'on the hill', 'look far away and not down', 'the whole valley was bright and beautiful'),
]
NOISES = [  # (sound, where, what made it, help it needs)
    ('a tapping sound', 'outside the window', 'a tiny bird with a cold wing', 'made a warm nest in a box'),
    ('a soft cry', 'under the stairs', 'a lost kitten', 'gave it a bowl of warm milk'),
    ('a scratching sound', 'behind the door', 'a hungry mouse', 'shared a piece of cheese'),
    ('a strange hum', 'in the shed', 'a bee that could not find its way out', 'opened the window wide'),
    ('a deep rumble', 'behind the hill', 'an old bear who was snoring', 'put a blanket over the bear'),
    ('a quiet song', 'down by the water', 'a frog who was singing alone', 'sang along until the moon was high'),
    ('a loud splash', 'in the pond', 'a duckling who had slipped off a stone', 'held out a long stick and pulled it to the shore'),
]
YOUNG = [('duckling', 'pond', 'mother duck'), ('lamb', 'meadow', 'mother sheep'), ('chick', 'barn', 'mother hen'),
         ('baby owl', 'old oak tree', 'mother owl'), ('bear cub', 'cave', 'mother bear'), ('baby rabbit', 'burrow', 'mother rabbit'),
         ('baby bird', 'nest', 'mother bird'), ('baby turtle', 'beach', 'mother turtle'), ('kitten', 'farm', 'mother cat')]
FOODS = [('cake', 'eggs', 'hen'), ('soup', 'carrots', 'rabbit'), ('bread', 'flour', 'miller'), ('apple pie', 'apples', 'farmer'),
         ('pancakes', 'milk', 'cow'), ('honey cake', 'honey', 'bee'), ('nut bread', 'nuts', 'squirrel'), ('jam', 'berries', 'gardener')]
SEEDS = [('sunflower', 'a big yellow flower'), ('pumpkin', 'a round orange pumpkin'), ('bean', 'a tall green plant'),
         ('rose', 'a lovely red rose'), ('apple', 'a small apple tree'), ('strawberry', 'a sweet red strawberry'),
         ('carrot', 'a long orange carrot')]
GOALS = [('see the sea', 'sea', 'the waves were blue and white, and they went on forever'),
         ('see the snow', 'mountain', 'the snow was soft and bright like sugar'),
         ('visit the moon', 'top of the hill', 'the moon was so round and near that it seemed to smile'),
         ('find the end of the rainbow', 'waterfall', 'tiny drops of every colour danced in the air'),
         ('meet the wise old owl', 'oldest tree', 'the owl opened one eye and told a wonderful story'),
         ('find a falling star', 'quiet lake', 'hundreds of stars were shining in the still water'),
         ('hear the big bell', 'tower', 'the bell rang so loud that all the birds flew up')]
BROKEN = [('cup', 'kitchen', 'jumped on the table'), ('window', 'garden', 'threw the ball too hard'), ('vase', 'hall', 'ran too fast'),
          ('chair', 'house', 'rocked back and forth'), ('lamp', 'bedroom', 'played with a stick'), ('plate', 'kitchen', 'danced around'),
          ('flower pot', 'garden', 'raced around the corner')]
ELDERS = [('mother', 'she', 'her', 'her'), ('father', 'he', 'him', 'his'), ('grandmother', 'she', 'her', 'her'),
          ('grandfather', 'he', 'him', 'his'), ('aunt', 'she', 'her', 'her'), ('uncle', 'he', 'him', 'his')]

# ---- openings: how the hero comes in. {One} in the first beat says when it began.

OPEN_TALE = [
    'once upon a time[,|] there was a {a} {k} named {h}. [{h}|{Hs}] lived {land}[ with {hp} {m}|].',
    'once upon a time[,|] there was a {a} {k} named {h} who lived {land}.',
    'once upon a time, a {a} {k} [named|called] {h} lived {land}.',
    'once upon a time, {land}, there lived a {a} {k} named {h}.',
    'once upon a time, there lived a {a} {k}[| {land}]. {Hp} name was {h}.',
    'once upon a time there was a {k} who lived {land}. {Hp} name was {h}, and {hs} was very {trait}.',
    'once upon a time[,|] there was a {k} [named|called] {h}.',
    'once upon a time, {h} the {k} lived {land}.',
]
OPEN_OTHER = [
    'there once was a {a} {k} named {h} who lived {land}.',
    'there was once a {a} {k} [named|called] {h}. [{h}|{Hs}] lived {land}.',
    'long ago, {land}, there lived a {a} {k} [named|called] {h}.',
    'a long time ago, a {a} {k} named {h} lived {land}.',
    '{land} lived a {a} {k} named {h}.',
    '{h} was a {a} {k} who lived {land}.',
    '{h} the {k} lived {land}[ with {hp} {m}|].',
    'there was a {a} {k} named {h}. {Hs} lived {land}.',
    '{h} the {k} and {f} the {fk} were [best|good] friends. they lived {land}.',
    '{h} and {f} were [best|good] friends. {h} was a {k}, and {f} was a {fk}.',
    'a {a} {k} named {h} lived {land}.',
]
OPEN_SCENE = [
    'it was a {wx} {day}. {h} the {k} was [sitting|playing|walking|resting] {land}.',
    'one {day}, a {a} {k} named {h} went for a walk.',
    'one {wx} {day}, a {a} {k} named {h} went for a walk.',
    'one {wx} {day}, {h} the {k} woke up early.',
    'on a {wx} {day}, {h} the {k} was [sitting|playing|walking|resting] {land}.',
    'the {day} was {wx}[ and quiet| and calm|]. {h}, a {a} {k}, looked out of the window.',
]
TRAITS = [
    '{Hs} was very {trait}.', 'everyone liked {h} because {hs} was so [kind|funny|friendly|cheerful].', '{Hs} loved to [play outside|listen to stories|sing in the morning|look at the clouds|explore].',
    '{Hs} loved [warm bread|sweet apples|honey|long walks|funny songs].', '{Hp} best friend was {f} the {fk}.', '', '', '', '', '', '', '',
]

# ---- story shapes: a list of beats each.

SHAPES = {}  # a beat that begins with ? may be left out

SHAPES['lost'] = [
    '[{h}|{Hs}] had a {c} {t} that {hs} loved very much[| more than anything else]. [{Hp} {m} had made it for {ho}.|It was a gift from {hp} {m}.|{Hs} took it everywhere.||]',
    '{One}, the {t} was gone! [{h} felt very sad.|{h} wanted to cry.|"Oh no! Where is my {t}?" cried {h}.|"My {t} is gone!" said {h} in a small voice.]',
    '?[{Hs}|{h}] looked {p1}, but it was not there. [then {hs} looked {p2}, but there was nothing but [dust|an old shoe|a snail|a dry leaf].|{Hs} looked {p2} too, but found only [dust|an old shoe|a snail|a dry leaf].]',
    '[just then|soon|after a while], {f} the {fk} came along. "[Why are you so sad|What is wrong|What are you looking for], {h}?" asked {f}. "[I lost my {t}|I cannot find my {t}|My {t} is gone]," said {h}. "[Do not worry|Do not cry|Cheer up]. [I will help you|We will find it together|Let us look together]," said {f}.',
    '[the two friends|they] [walked slowly and looked everywhere|searched the whole {day2}|looked high and low]. [at last|then|suddenly], {f} saw something {c} {p3}. "[Is that your {t}|Look over there|Come and see]!" {fs} called. [It was the {t}!|There it was, the {c} {t}!]',
    '[{h} jumped for joy|{h} hugged {f}|{h} laughed and danced]. "Thank you, {f}! You are a [good|true|wonderful] friend," {hs} said. [from that day on, {h} always took good care of the {t}.|then they played with the {t} until the sun went down.|{h} let {f} play with the {t} too, and they were both happy.|{h} never left the {t} behind again.]',
]
SHAPES['learn'] = [
    '[{h}|{Hs}] wanted to {do}, but {hs} did not know how. [all the others could do it.|{Hs} dreamed about it every night.|It looked so easy.||]',
    '{One}, {hs} tried for the first time. but {hs} {oops}. [{f} the {fk} saw it and smiled.|{f} the {fk} was watching.] "[I will never learn it|It is too hard|I cannot do it]," said {h}[| sadly].',
    '"[Try again|Do not give up|Nobody can do it the first time]," said {f}. "[I will show you how|I will stay with you|We can practise together]." [so {h} tried again, and again {hs} {oops}.|{h} tried once more. It was a little better, but {hs} {oops} again.]',
    '?[every day|every morning|all week], {h} practised [with {f}|while {f} cheered]. [some days were good and some days were bad.|{Hs} got tired, but {hs} did not stop.|little by little, it became easier.]',
    '[then, one {wx2} day, it happened|and then, one day, it worked]. {h} could {do}! "[I did it|Look at me|I can do it]!" {hs} shouted. {f} clapped and cheered. [everyone came to see.|{Hp} {m} was very proud.|]',
    '[from then on, {h} loved {doing} more than anything.|that night, {h} was tired but very proud.|{h} had learned that it is good to keep trying.|after that, {h} taught the little ones to {do} too.]',
]
SHAPES['fear'] = [
    '[{h}|{Hs}|but {h}] was [a little|very] afraid of {fear}. {when}, [{hp} knees shook|{hs} wanted to hide|{hp} heart beat fast]. [{Hs} did not tell anyone about it.|The others laughed at {ho}.||]',
    '{One}, {f} the {fk} asked {h} to come along. {h} looked down and whispered, "I cannot. I am afraid of {fear}." [{f} did not laugh.|{f} nodded kindly.|{f} sat down beside {ho}.]',
    '"[I was afraid of it once too|Everyone is afraid of something|That is all right]," said {f}. "[My {m} told me a secret|Here is what I do|I know what helps]. You must {show}. [Shall we try it together|Will you try it with me]?"',
    '{h} held the {paw} of {f} tightly. [{Hs} was still scared, but {hs} tried.|"All right," said {h} in a small voice.] [together|very slowly], they did it. [and do you know what?|and then {h} was surprised.] {was}!',
    '"[It is not so bad|I am not afraid any more|This is nice]," said {h}. {f} smiled. "[You were very brave|I knew that you could do it|Now you know the secret]."',
    '[from that day on, {h} was not afraid of {fear} any more.|after that, whenever {h} felt afraid, {hs} remembered {f} and smiled.|that night {h} told {hp} {m} all about it, and slept very well.|now {h} helps others who are afraid.]',
]
SHAPES['friend'] = [
    '[but {h} had no one to play with, and {hs} often felt lonely.|{h} wished for just one thing: a friend.|{h} was new there and did not know anyone.]',
    '{One}, {hs} saw a {fk} [sitting alone on a stone|playing alone by the {near}|looking at the clouds near the {near}]. {h} wanted to say hello, but {hs} was too shy. [{Hs} hid behind a tree.|{Hs} walked by and looked at the ground.]',
    '[the next day, the {fk} was there again.|soon the {fk} looked up.] this time {h} took a deep breath. "[Hello|Good day], my name is {h}," {hs} said. "Would you like to [play|share my [apple|bread|cake]|build a [tower|little house|dam]] with me?"',
    'The {fk} smiled. "[I would love to|Yes, please|Oh yes]!" {fs} said. "I am {f}. [I was hoping that someone would ask me.|I did not know how to say hello.|I have no friends here.]"',
    '[they played all {day2} long.|they ran, laughed and told each other funny stories.|they played by the {near} until it was time to go home.] [when it began to rain, they shared one big leaf.|when {h} got tired, {f} told {ho} a joke.|when {f} fell down, {h} helped {fo} up.|]',
    '[from that day on, {h} and {f} were best friends.|after that, {h} was never lonely again.|"See you tomorrow," said {f}. {h} went home with a big smile, because now {hs} had a friend.]',
]
SHAPES['young'] = [
    '{One}, {h} [heard someone crying|heard a small voice] {p1}. It was a little {y}. "[I am lost|I cannot find my mother|I want to go home]!" said the {y}.',
    '"[Do not cry|Do not be afraid]," said {h}. "[I will take you home|We will find your mother]. Where do you live?" "I live [by|near] the {yhome}," said the {y}[| and wiped away a tear].',
    '[so they set off together.|{h} took the {y} along.|they walked side by side.] first they came to the {near}, but [nobody was there|it was the wrong way]. then they met {f} the {fk}. "[Have you seen the {ymom}|Do you know the way to the {yhome}]?" asked {h}. "[Yes, follow the path past the big rock|Yes, go over the little bridge|Yes, I just saw her. Go that way]," said {f}.',
    '[the way was long, and the {y} got tired, so {h} sang a song.|it started to rain, but they kept going.|it was getting late, and {h} walked a little faster.|] [at last|finally], they saw the {yhome}.',
    '"[My baby|There you are|My little one]!" cried the {ymom}. [The {y} ran to her as fast as it could.|The {y} cuddled up to her.] "Thank you, {h}! [You are so kind!|How can I ever thank you?|You are always welcome here!]"',
    '{h} [waved and walked home under the first stars|went home with a warm feeling in {hp} heart|smiled all the way home]. [{Hs} had made a new friend that day.|It was good to help someone.|The {y} often came to visit {ho} after that.]',
]
SHAPES['share'] = [
    '{h} and {f} the {fk} were good friends. {One}, they found a {c} {t} {p1}. "[I saw it first|It is mine]!" said {h}. "No, [I saw it first|it is mine]!" said {f}.',
    '{h} pulled on one side, and {f} pulled on the other. [they pulled and pulled.|neither of them wanted to let go.] [crack! The {t} broke in two.|then {h} slipped and fell, and the {t} flew into the mud.]',
    '?[now nobody could play with it.|now the {t} looked very sad.] they went home. [all evening, {h} felt bad.|but it was no fun to play alone.|{h} could not sleep that night.] "[A {t} is just a thing|{f} is more important than a {t}]," {hs} thought.',
    'The next morning, {h} went to see {f}. "[I am sorry|I am sorry that I was so unkind]," said {h}. "I am sorry too," said {f}. "[Let us mend it together|Maybe we can fix it]."',
    '[they worked on the {t} all {day2}.|{h} held the {t}, and {f} worked with glue and string.|they washed it, dried it and fixed it.] [soon|at last] it was as good as new. "[You can have it today, and I can have it tomorrow|We can play with it together|Now it belongs to both of us]," said {h}.',
    '[and so they did.|{f} liked that idea very much.] [after that, they shared everything.|they never fought about the {t} again.|and playing together was twice as much fun.]',
]
SHAPES['noise'] = [
    '{OneNight}, {h} [could not sleep|woke up in the middle of the night|was lying in bed]. [Outside, the wind was blowing.|The moon was shining.|Everything was dark and still.||] then {hs} heard {noise} {nwhere}.',
    '?"[What could that be|What was that|Who is there]?" {h} whispered. [{Hs} pulled the blanket over {hp} head.|{Hs} sat up and listened.|{Hp} heart beat fast.] [there it was again!|The sound did not stop.]',
    '{h} [woke up {hp} friend {f}|went to get {hp} friend {f}]. "[There is something {nwhere}|I heard {noise}]," said {h}. "[Let us look together|I will come with you|We will take a lamp and look]," said {f} the {fk}.',
    '[step by step|on their toes|slowly and quietly], they went to look. {h} held up the lamp. and what did they see? it was {maker}! "[So it was you|You gave us a fright|Oh, you poor thing]!" said {h}[| and laughed].',
    '{h} and {f} were not afraid any more. they {nhelp}. [soon everything was well.|"That is much better," said {f}.|"Now we can all sleep," said {f}.]',
    '[then {h} went back to bed and slept until morning.|and when {h} fell asleep, {hs} was smiling.|after that night, {h} was not afraid of strange sounds any more.|in the morning, {h} told {hp} {m} the whole story.]',
]
SHAPES['garden'] = [
    '{One}, {hp} {m} gave {ho} a tiny {seed} seed. "[Plant it and take care of it|Put it in the ground and wait]," {ms} said. {h} dug a little hole, put the seed in and gave it some water.',
    '?[every morning|each day], {h} ran to the garden to look. but there was nothing but [brown earth|mud]. "[Why does it not grow|Is my seed asleep|How long must I wait]?" {hs} asked. "[Good things need time|Be patient|It is growing where you cannot see it]," said {hp} {m}.',
    '[one day it was very hot, and {h} carried water from the well.|one night there was a storm, and {h} put a box over the place.|{h} pulled out the weeds and sang to the seed.] {f} the {fk} came by and said, "[You are wasting your time|Nothing will ever grow there|You have to believe in it]." {h} [just smiled and kept on going|did not give up].',
    'then, one {wx2} morning, there was a tiny green leaf! [{h} was so happy that {hs} danced around it.|"It is growing! It is growing!" shouted {h}.] [day after day, it grew taller.|week after week, it grew and grew.]',
    'at the end of the summer, it was {plant}. [everyone came to look at it.|{h} had never seen anything so beautiful.|{Hp} {m} hugged {ho} and said, "You did that all by yourself."]',
    '[{h} shared it with {f} and saved one seed for the next year.|{h} gave {f} a seed too, and together they made a new garden.|now {h} knew that good things take time.]',
]
SHAPES['journey'] = [
    '[{h}|{Hs}] had one big wish: {hs} wanted to {goal}. [{Hs} thought about it day and night.|"One day I will do it," {hs} always said.|]',
    '{One}, {hs} packed [some bread and an apple|a warm blanket and some bread|a little bag] and set off. [{Hp} {m} kissed {ho} and said, "Be careful."|"Come back soon," said {hp} {m}.|] on the way, {hs} met {f} the {fk}. "[Where are you going|May I come with you]?" asked {f}. "I want to {goal}. [Come with me|You can come too]!" said {h}.',
    '?[they walked over hills and through a forest.|they walked and walked until their feet hurt.] [a wide river was in their way, so they built a small raft.|a big rock blocked the path, so they pushed it together.|it got dark, so they slept under a tree.|a cold rain came down, so they hid in a cave.]',
    '?"[Are we nearly there|I am so tired|Maybe we should go home]," said {f}. "[Just a little farther|We must not give up now]," said {h}. [{Hs} shared {hp} last piece of bread.|{Hs} took {f} by the {paw}.|they sang a song to keep going.]',
    '[at last|finally|the next morning], they came to the {gplace}. [and there it was|{h} could not believe it]: {gsee}. [{h} and {f} sat down and looked for a long time.|"It is even better than I dreamed," said {h}.|"How beautiful!" whispered {f}.]',
    '[when they came home, they told everyone about it.|{h} was glad to be home again, and {hs} never forgot that day.|on the way home, {f} asked, "Where shall we go next?" and {h} laughed.|and the best thing was that {h} had found a friend on the way.]',
]
SHAPES['cook'] = [
    '{One}, {h} wanted to make {food} for {hp} friend {f} the {fk}. [It was a surprise.|It was the birthday of {f}.|{f} was ill in bed.]',
    '{h} [looked in the kitchen|took out a big bowl|put on an apron]. but there {is} no {ing} [left|in the house]! "[What shall I do now?|I cannot make {food} without {ing}!]" said {h}.',
    'so {hs} took a basket and went to the {owner}. "[Please, may I have some {ing}|Do you have some {ing} for me]?" {hs} asked. "[Of course|Gladly], but first you must help me [sweep the floor|carry this wood|find my lost glove]," said the {owner}.',
    '{h} [worked hard|helped right away|did the work with a song]. soon everything was done, and the {owner} gave {ho} the basket full of {ing}. {h} ran home [as fast as {hs} could|and did not drop a thing].',
    '{Hs} mixed and stirred and baked and cooked. [soon the whole house smelled wonderful.|a wonderful smell went through the house.] then {hs} carried the {food} to the house of {f}. "[Surprise|This is for you]!" said {h}.',
    '"[Did you make this for me?|What a lovely surprise!]" said {f}. {Fs} [took a big bite|tasted it] and smiled. "[This is the best {food} in the world|That is delicious|Now I feel much better]!" [They ate it all up, and they saved a piece for the {owner}.|They sat together and ate until nothing was left.|{h} was very happy, because giving is the best part.]',
]
SHAPES['truth'] = [
    '{One}, {h} {did} in the {room}. crash! The {b} of {hp} {m} broke. [{h} looked at the pieces, and {hp} face turned red.|"Oh no," whispered {h}.]',
    '{Hs} [hid the pieces under a rug|put the pieces in a box|swept the pieces behind the door]. [nobody had seen it.|"Nobody will know," {hs} thought.] then {hs} ran outside, but [playing was no fun|{hs} had a bad feeling in {hp} tummy].',
    '{f} the {fk} saw {ho} and asked, "[What is the matter|Why do you look so sad], {h}?" {h} told {f} everything. "[You should tell the truth|Tell your {m} about it]," said {f}. "[It will make you feel better|I will go with you]."',
    'so {h} went to {hp} {m}. "[I have to tell you something|I did something bad]," {hs} said. "I broke the {b}, and I hid it. I am very sorry."',
    '{Hp} {m} [was quiet for a moment|looked at {ho} for a long time]. then {ms} smiled. "[Thank you for telling me the truth|That was brave of you|A {b} can be mended, but a lie is hard to mend]," {ms} said, and {ms} gave {ho} a hug.',
    '[together they fixed the {b} with glue.|{h} helped to clean up, and then they had warm milk.|the next day, they made a new one together.] [{h} felt as light as a feather.|from then on, {h} always told the truth.|that night, {h} slept very well.]',
]
SHAPES['storm'] = [
    '{One}, the sky turned dark. a big storm was coming! {h} ran home[ as fast as {hs} could|]. but then {hs} heard a voice [{p1}|by the {near}]. "[Help! Help me|Please help me]!"',
    'It was {f} the {fk}. [{Fs} was stuck in the mud.|{Fp} foot was stuck under a branch.|The water was rising all around {fo}.] "[I cannot get out|Please do not leave me]!" cried {f}.',
    '?[{h} was scared of the storm, but {hs} did not run away.|The rain was cold, and the wind was strong.] "[Hold on! I am coming|I will help you]!" {hs} shouted. {h} ran to {fo} and pulled with all {hp} might, but [{f} did not move|it did not work].',
    'then {h} had an idea. {Hs} [found a long rope|took a strong branch|took off {hp} scarf] and held it out. "[Hold this tightly|Take this]!" {hs} called. one, two, three, and pull! [pop! {f} was free.|suddenly, {f} was free!]',
    'they ran to the house of {h} and [sat down by the fire|dried themselves by the fire]. {Hp} {m} gave them [hot soup|warm milk with honey|hot tea and bread]. "[You saved me|You are very brave]," said {f}. "[That is what friends are for|You would do the same for me]," said {h}.',
    '[soon the storm was over, and a rainbow stood in the sky.|outside, the rain stopped, and the sun came out again.|when the storm was over, they jumped in all the puddles.] [from that day on, they were the best of friends.|{h} and {f} looked at it and smiled.|it was a day that they would never forget.]',
]
SHAPES['party'] = [
    '{One} was the birthday of {h}. {Hs} [waited and waited|looked out of the window all morning], but nobody came. "[Did they all forget my birthday|Does nobody remember me]?" {hs} thought.',
    '{Hs} went to see {f} the {fk}. but {f} said, "[I am sorry, I have no time today|I am busy]," and closed the door. [{h} thought that {hs} heard someone laugh.|behind the door, someone was whispering.]',
    '?then {hs} went to the {near}, but [nobody was there|it was empty] either. {h} sat down on a stone. [a tear ran down {hp} nose.|{Hs} felt very lonely.|"This is the worst birthday ever," {hs} said.]',
    '[in the evening|when the sun went down], {h} walked home. [The house was dark.|There was no light in the window.] {h} opened the door, and then... "Surprise!" everyone shouted. [there were lamps, balloons and a big cake.|there was a cake with candles, and there was music.]',
    '"[We did not forget you|We were getting ready all day]," said {f}[| and laughed]. {Fs} gave {ho} a box. inside was a {c} {t}! "[It is just what I wanted|It is beautiful]!" said {h}.',
    'they [danced and sang|ate cake and played games] until it was late. [it was the best birthday ever.|"I have the best friends in the world," said {h}.|and {h} fell asleep with the {t} in {hp} arms.]',
]
SHAPES['boast'] = [
    '[{h}|{Hs}] was [fast|very fast], and {hs} knew it. "[I am the fastest of all|Nobody is as good as I am]!" {hs} said every day. the others were tired of it.',
    '{One}, {f} the {fk} said, "Let us have a race to the {near}." {h} laughed. "[You are much too slow|That will be easy|I will win before you start]," {hs} said.',
    'one, two, three, go! {h} ran off like the wind. {f} went slowly, step by step. [soon {h} was far ahead.|soon {h} could not see {f} any more.] "[I have so much time|I can take a little rest]," said {h}. {Hs} lay down under a tree and [fell asleep|closed {hp} eyes].',
    '{f} did not stop. {Fs} went past the tree [very quietly|with a little smile] and went on and on. when {h} woke up, the sun was low. {Hs} jumped up and ran and ran, but it was too late. {f} was already [there, waiting for {ho}|sitting there in the shade].',
    '?"[You won!|How did you do it?|Well done!]" said {h}[| and looked at the ground]. "[I just kept going|I did not stop, that is all]," said {f}. [{Fs} did not laugh at {ho}.|then {fs} shared {fp} apple with {ho}.]',
    '"[I am sorry that I was so proud|I will not boast again]," said {h}. [and {hs} never did.|after that, they went for walks together, and {h} learned to go slowly.|from that day on, {h} was a better friend.]',
]
SHAPES['old'] = [
    '{One}, {h} met an old [woman|lady] on the path. {Eh} was carrying a heavy [basket|bag|pile of wood]. [the others just walked past her.|she had to stop after every step.] {h} [was in a hurry|wanted to go and play], but {hs} stopped.',
    '"[May I help you?|Let me carry that for you!|Can I carry that for you?]" said {h}. "[How kind of you|Thank you, my dear]," said the old {ew}. [so {h} carried it all the way up the hill.|it was very heavy, but {h} did not complain.|together they went slowly to her house near the {near}.]',
    'at her door, the old {ew} gave {ho} a small {c} [stone|seed|bell|key]. "[It is magic|Keep it well]," she said. "[If you ever need help, hold it and make a wish|It will bring you one wish]."',
    '[some days later|the next day|a week later], {h} heard bad news: {f} the {fk} was [very ill|lost in the forest|stuck in a deep hole]. {h} [could have wished for gold or for toys|could have wished for anything in the world]. but {hs} held the gift tightly and said, "I wish that {f} will be well and safe."',
    'there was a bright light, and a warm wind blew. [a moment later|and then], {f} stood before {ho}! "[What happened|How did I get here]?" asked {f}. {h} [laughed and hugged {fo}|was so happy that {hs} could not speak].',
    '[the magic was gone, but {h} did not mind.|{h} had used {hp} only wish, and {hs} was glad.] [a good friend is better than gold.|kindness is the best magic of all.|from then on, {h} and {f} visited the old {ew} every week.]',
]

SHAPES['egg'] = [
    '{One}, {h} found a [white|blue|speckled] egg {p1}. [it was still warm.|nobody was near.|{Hs} looked for a nest, but there was none.] "[How cold you must be!|Where is your mother, little egg?|I will take care of you, little egg!]" said {h}.',
    '{Hs} [put it in a soft scarf|wrapped it in a blanket|made a nest of dry grass for it] and kept it warm all {day2}. "[It will never hatch|That is just a stone]," said {f} the {fk}. but {h} [did not listen|sat by the egg day and night|told it stories every evening].',
    'then, one {wx2} morning, there was a small crack. crack, crack! Out came a tiny [yellow|grey|brown] bird. it looked at {h} and said, "Peep!" [{h} laughed out loud.|Even {f} had to smile.] "I will call you [Button|Star|Crumb|Feather]," said {h}.',
    '[the little bird followed {ho} everywhere.|the bird grew bigger every day.] [{h} found worms for it and showed it the world.|{h} and {f} taught it to hop and to sing.] when autumn came, the bird had to fly south. {h} was sad. "[Fly well|Come back soon], little one," {hs} said.',
    '[all winter, {h} waited.|the winter was long.] and when spring came, there was a knock at the window. "Peep!" [The bird was back!|It was the bird!] [{h} danced with joy.|and from then on, it came back every spring.|now {h} knew that good friends always come back.]',
]
SHAPES['snow'] = [
    '{One}, the first snow fell. {h} ran outside [and laughed|in {hp} warm boots|before breakfast]. together with {f} the {fk}, {hs} made a big snowman. it had [a carrot for a nose|a funny nose] and [an old hat|a red scarf|two black stones for eyes].',
    '?"[He looks so alive|He is our friend now]," said {h}. every day they [played around the snowman|told the snowman what they had done|danced around him]. [at night, {h} waved to him from the window.|]',
    'but then the sun grew warmer. [each day, the snowman was a little smaller.|drip, drip, drip, went the snowman.] "[Please do not go|Can we save him]?" said {h}. They put him in the shade, but it [did not help|was too warm]. [one morning, only the hat was left.|one morning, there was only a little water.]',
    '{h} [cried|was very sad]. "[He is not really gone|Do not cry]," said {f}. "[The water goes to the river and up to the clouds|He became water, and the water makes the flowers grow]. [Next winter, he will come back as snow|One day he will fall as snow again]."',
    '[and look! where the snowman had been, a small white flower was growing.|that spring, the flowers in that place were the most beautiful of all.] [{h} smiled again.|"Thank you, snowman," said {h}.] and when the snow fell again the next winter, {h} shouted, "[Welcome back|There you are], old friend!"',
]
SHAPES['star'] = [
    '{OneNight}, a little star fell from the sky. it landed {p1}. {h} saw the light and ran outside. "[I am so far from home|I fell down, and I cannot get back]," said the star[| in a tiny voice]. [its light was very weak.|it was cold and afraid.]',
    '"[I will help you|We will bring you home]," said {h}. first {hs} [threw the star as high as {hs} could, but it fell into a bush|climbed a tree with it, but the sky was still too far away]. then {hs} [stood on the roof, but that was not high enough|jumped and jumped, but that did not help].',
    '{f} the {fk} woke up and came along. "[I have an idea|I know what to do]," said {f}. "[We need a kite|Let us use my big kite]!" They tied the star to the tail of the kite. the wind came, and up it went, [higher and higher|over the trees and over the hills|up and up and up].',
    '[soon the star was among its sisters again.|at last, the star was back in the sky.] it [shone brighter than before|twinkled three times]. "Thank you, {h}! Thank you, {f}!" it called. [they waved until their arms were tired.|{h} and {f} looked up for a long time.]',
    '[now, every night, one star twinkles just for {h}.|and when {h} cannot sleep, {hs} looks for the little star.|since then, {h} always says good night to the star before {hs} goes to bed.]',
]
SHAPES['sleep'] = [
    '{OneNight}, {h} could not sleep. [{Hs} turned to the left and to the right.|{Hs} had closed {hp} eyes, but it did not help.|The bed was too warm, and then it was too cold.] {Hs} counted [sheep|stars], but [after ten {hs} forgot the next number|they would not stand still].',
    '?so {hs} got up and went to {hp} {m}. "I cannot sleep," said {h}. {Hp} {m} gave {ho} [warm milk|a cup of tea|a soft pillow] and sang a song. [it was nice, but {h} was still awake.|but {h} was as awake as before.]',
    'then {h} looked out of the window. There was {f} the {fk}, sitting in the light of the moon. "[Can you not sleep either|Why are you awake]?" asked {h}. "[I am thinking too much|No, my head is full of thoughts]," said {f}. [they sat down side by side.|{h} went out and sat down next to {fo}.]',
    '"[Come, tell me about your day!|What was the best thing today?]" said {f}. {h} told {fo} about [the sweet apples and the funny clouds|a butterfly and a big puddle|the songs of the birds]. {f} told {ho} about [a long walk and a cool stream|a nut that rolled away|a very slow snail]. [their voices became softer and softer.|the moon listened and smiled.]',
    '[soon {f} yawned, and then {h} yawned too.|"Good night," whispered {f}, but {h} was already asleep.] [in the morning, {hp} {m} found them both asleep under one blanket.|they slept until the sun was high.|and that was the best sleep ever.]',
]
SHAPES['different'] = [
    '[{h}|{Hs}] had very big ears, and the others laughed at {ho}. "[Look at those big ears|You look so funny]!" they said. [{h} wished to be like everyone else.|{h} often hid and felt sad.] Only {f} the {fk} never laughed. "[I like you as you are|You are just right]," {fs} said.',
    '{One}, they all went for a walk. [they went farther and farther.|they played and did not look at the path.] then a thick fog came. [nobody could see the way.|they were lost!] "[Where is the way home|What shall we do]?" they cried.',
    '"[Be quiet|Stay calm], please," said {h}. {Hs} stood very still. [{Hs} heard something that nobody else could hear: the bell of the village, far away.|{Hs} could hear the bell of the village, very far away.] "[Follow me|This is the way]!" said {h}.',
    '?[they held hands and walked behind {ho}.|one after another, they followed {ho}.] [step by step, {h} led them through the fog.|it took a long time, but {h} never stopped.] [and then they saw the lights of home!|at last they came to the first house.]',
    '"[You saved us all|We are sorry that we laughed], {h}!" the others said. {f} [smiled|hugged {ho}]. "I always knew it," {fs} said. [from that day on, nobody laughed at {h} any more.|now {h} was proud to be different.|after that, {h} always walked in front.]',
]
SHAPES['boat'] = [
    '{One}, {h} and {f} the {fk} found [an old box|a big piece of wood] {p1}. "[This could be a boat|Let us make a boat]!" said {h}. they [took a blanket for a sail|made a sail from a shirt] and used [two spoons|two sticks] to row.',
    'the boat floated! "[I am the captain|We are going to an island]!" shouted {h}. [they waved to the ducks and to the fish.|the water was calm, and the sun was warm.] [but then the wind grew stronger.|then dark clouds came.] [the waves went up and down.|splash! Water came into the boat.]',
    '?"[We are sinking|The boat is full of water]!" cried {f}. "[Use the hat|Take the bucket]!" called {h}. {f} threw the water out, and {h} rowed with all {hp} might. [they worked hard and did not give up.|"Left! Right! Left! Right!" {hs} called.]',
    'at last, they landed on a small island. there were [sweet berries|soft sand and round stones|tall trees full of nuts]. [they made a fire and dried their clothes.|they ate until they were full.] [then a big turtle swam by. "Do you want to go home?" it asked. "Climb on my back!"|when the wind was gone, they rowed home slowly.]',
    '[in the evening, they were home again, wet and happy.|{Hp} {m} was waiting on the shore with a warm towel.] "[What a day|That was a real adventure]," said {f}. "[Tomorrow we will build a bigger boat|You are a good sailor]," said {h}[| and laughed].',
]
SHAPES['winter'] = [
    'it was a warm summer, and {h} lay in the grass all day. {f} the {fk} was gathering [nuts and berries|wood and apples] for the winter. "[Come and play with me!|Why do you work so hard?]" said {h}. "[Winter will come|I must get ready], and you should work too," said {f}. {h} just [laughed|closed {hp} eyes again].',
    'then the leaves turned red and fell down. {f} worked every day, and {h} still played. [soon the cold wind came.|one morning, everything was white.] {h} looked into {hp} cupboard. it was empty! "[What shall I eat now?|I am so cold and hungry!]" said {h}.',
    '{Hs} walked through the snow to the house of {f} and knocked. "[May I come in?|Please let me in!|You were right! Please help me!]" said {h}. {f} looked at {ho} for a moment. then {fs} opened the door wide. "[Come in and warm yourself|I have enough for two]," {fs} said.',
    '?they ate [hot soup|warm bread] by the fire. [{h} swept the floor and told funny stories.|{h} played music, and {f} clapped.] [so the winter was not so long.|outside it was cold, but inside it was warm.]',
    'when summer came again, {h} got up early every morning. {Hs} [filled two baskets, one for {f} and one for {hp} own house|worked beside {f} and sang while they worked]. "[First we work, and then we play|This year I will share with you]," said {h}. [and {f} was glad to have such a friend.|]',
]
SHAPES['thief'] = [
    '{One}, {h} wanted to eat {hp} [berries|apples|cookies]. but the bowl was empty! the next day, it was empty again. "[Who is taking my food?|Someone is a thief!]" said {h}. [{Hs} was very angry.|{Hs} could not understand it.]',
    '{h} told {f} the {fk} about it. "[Let us hide and watch|We must find out who it is]," said {f}. so that night they hid behind [a big chair|the curtain|a barrel]. [they waited and waited.|it was so quiet that they heard the clock.] {f} almost fell asleep.',
    'suddenly, the door opened a tiny bit. in came a little {y}. it [looked around|walked on its toes] and began to eat. "[Stop|I see you]!" shouted {h}. the little {y} [began to shake|was so scared that it could not move].',
    '"[Please do not be angry|I am sorry]," said the {y}. "[I am all alone, and I was so hungry|I could not find my way home, and I had nothing to eat]." {h} was not angry any more. "[You only had to ask|Next time, just knock at the door]," {hs} said[, and {hs} gave it a big bowl of soup|].',
    'the next day, {h} and {f} took the {y} to the {yhome}. there was the {ymom}! [She cried with joy.|She had looked for it everywhere.] [after that, {h} always put out a second bowl.|and from then on, the {y} came to visit them, and it always knocked at the door.]',
]
SHAPES['bridge'] = [
    '{One}, {h} came to a small bridge. it was so narrow that only one could cross. [in the middle of the bridge|just then], {hs} met {f} the {fk}, who came from the other side. "[Go back|Let me pass]," said {h}. "[I was here first|No, you go back]," said {f}.',
    '[they stood there nose to nose.|neither of them took a step back.] {h} pushed, and {f} pushed back. [the bridge began to shake.|they pushed harder and harder.] splash! both of them fell into the water.',
    '[the water was cold, but it was not deep.|they came up with wet hair and mud on their noses.] {h} looked at {f}, and {f} looked at {h}. "You have [a leaf|a little fish|grass] on your head," said {h}. "[And you look like a wet sock|So do you]," said {f}. then they both began to laugh. they laughed and laughed.',
    '?"[We were very silly|How silly we were]," said {h}. "[If I had waited for you, we would both be dry|It takes only a moment to wait]," said {f}. they [sat in the sun until they were dry|shared an apple on the grass].',
    '[the next day, they met on the bridge again. "After you," said {h}. "No, after you," said {f}.|after that, whenever they met on the bridge, one of them said, "After you!"] So they [laughed about it every time|became good friends].',
]

ENDS = ['the end.', 'the end.', 'and they lived happily ever after.', '', '', '', '', '']

CHOICE = re.compile(r'\[([^\[\]]*)\]')
SLOT = re.compile(r'\{(\w+)\}')
INDOORS = ('truth', 'party', 'cook', 'garden')


def expand(rng, text, slots):
    while True:  # innermost choice first
        new = CHOICE.sub(lambda m: rng.choice(m.group(1).split('|')), text)
        if new == text:
            break
        text = new
    return SLOT.sub(lambda m: slots[m.group(1)], text)


def polish(text):
    text = re.sub(r'\s+', ' ', text).strip()
    text = re.sub(r'(^"?|[.!?] |[.]" | ")([a-z])', lambda m: m.group(1) + m.group(2).upper(), text)
    text = re.sub(r'\b([Aa]) (?=[aeiou])', r'\1n ', text)
    return text


def new_name(rng):
    """A name nobody has heard before: teaches the model to copy names."""
    c, v = 'b d f g k l m n p r s t v z c h j w y x qu'.split(), 'a e i o u'.split()
    n = rng.choice(c) + rng.choice(v) + rng.choice(c + ['ll', 'nn', 'tt', 'mm']) + rng.choice(v)
    if rng.random() < 0.3:
        n += rng.choice('n l r s'.split())
    return n.capitalize()


def person(rng, kinds=None, taken=()):
    she = rng.random() < 0.5
    while True:
        name = new_name(rng) if rng.random() < 0.07 else rng.choice(GIRLS if she else BOYS)
        if name not in taken:
            break
    kind = rng.choice(kinds) if kinds else ('girl' if she else 'boy')
    return name, kind, ('she', 'her', 'her') if she else ('he', 'him', 'his')


def story(rng, shape=None):
    shape = shape or rng.choice(list(SHAPES))
    s = {}
    skill = rng.choice(SKILLS)
    while True:
        hero_is_child = rng.random() < 0.3
        h = person(rng, None if hero_is_child else BEASTS)
        f = person(rng, BEASTS, taken=(h[0],))
        if f[1] == h[1] or f[1][0:2] == h[1][0:2]:
            continue
        if shape == 'learn' and h[1] in skill[3].split():
            continue
        if shape == 'boast' and f[1] not in 'turtle mole hedgehog duck frog mouse'.split():
            continue
        break
    for p, (name, kind, pro) in (('h', h), ('f', f)):
        s[p], s[p + 'k'] = name, kind
        s[p + 's'], s[p + 'o'], s[p + 'p'] = pro
        s[p.upper() + 's'], s[p.upper() + 'p'] = pro[0].capitalize(), pro[2].capitalize()
    s['k'] = s['hk']
    s['m'], s['ms'], s['mo'], s['mp'] = rng.choice(ELDERS)
    s['a'], s['trait'] = rng.sample(CHILD_ADJ, 2)
    if s['trait'] in ('little', 'small'):
        s['trait'] = 'friendly'
    land, a, b = rng.choice(LANDS)
    s['land'] = expand(rng, land, s)
    s['near'] = b
    s['c'], s['t'] = rng.choice(COLOURS), rng.choice(THINGS)
    s['p1'], s['p2'], s['p3'] = rng.sample(HIDING, 3)
    s['do'], s['doing'], s['oops'], _ = skill
    s['fear'], s['when'], s['show'], s['was'] = rng.choice(FEARS)
    s['noise'], s['nwhere'], s['maker'], s['nhelp'] = rng.choice(NOISES)
    s['y'], s['yhome'], s['ymom'] = rng.choice([y for y in YOUNG if y[0] not in (h[1], f[1])])
    s['food'], s['ing'], s['owner'] = rng.choice([x for x in FOODS if x[2] not in (h[1], f[1])])
    s['is'] = 'were' if s['ing'].endswith('s') else 'was'
    s['seed'], s['plant'] = rng.choice(SEEDS)
    s['goal'], s['gplace'], s['gsee'] = rng.choice(GOALS)
    s['b'], s['room'], s['did'] = rng.choice(BROKEN)
    s['Eh'], s['ew'] = 'She', 'woman'
    s['paw'] = 'hand' if f[1] in ('robot', 'monkey') else 'wing' if f[1] in ('owl', 'duck', 'bird', 'goose', 'penguin') else 'paw'
    s['wx'] = rng.choice('sunny rainy windy cloudy foggy warm cold bright'.split())
    s['wx2'] = rng.choice('sunny bright warm'.split())
    s['day'] = rng.choice('morning afternoon day'.split())
    s['day2'] = rng.choice('day afternoon'.split())

    r = rng.random()
    scene = shape not in ('noise', 'star', 'sleep', 'snow', 'winter') and r < 0.15
    opening = rng.choice(OPEN_SCENE if scene else OPEN_TALE if r < 0.65 else OPEN_OTHER)
    if scene:
        s['One'] = rng.choice(['that ' + s['day'], 'that day', 'later that day'])
    else:
        s['One'] = rng.choice(['one day', 'one day', 'one {wx} {day}', 'one {day}', 'one {wx} {day}']).format(**s)
    if shape == 'snow':
        s['One'] = rng.choice(['one winter day', 'one cold morning', 'one day in winter'])
    if shape == 'party':
        s['One'] = 'that day' if scene else 'today'
        if not scene:
            s['One'] = 'the next day' if rng.random() < 0.5 else 'the last day of the summer'
    s['OneNight'] = rng.choice(['one night', 'one windy night', 'one dark night', 'late one evening'])
    if scene and shape in INDOORS:
        opening = rng.choice(OPEN_SCENE[-2:])
    if '{f}' in opening and shape in ('friend', 'boast', 'share', 'bridge', 'sleep'):
        opening = OPEN_OTHER[-1]
    if hero_is_child:
        opening = opening.replace('{h} the {k}', 'a {a} {k} named {h}')
    known = '{f}' in opening
    body = [x.lstrip('?') for x in SHAPES[shape] if x[0] != '?' or rng.random() < 0.4]
    out = [opening]
    if not known and shape not in ('share', 'friend', 'bridge', 'sleep') and not (scene and shape in ('lost', 'learn', 'fear', 'journey', 'boast', 'different')):
        out.append(rng.choice([x for x in TRAITS if shape != 'boast' or '{f}' not in x]))
        known = '{f}' in out[-1]
    elif known and body[0].startswith('[{h}|{Hs}'):
        body[0] = '{h}' + body[0][body[0].index(']') + 1:]
    if known:
        body = [x.replace('{f} the {fk}', '{f}').replace('{hp} friend {f}', '{f}') for x in body]
    out += body
    out.append(rng.choice(ENDS))
    return polish(' '.join(re.sub('^"?[a-z]', lambda m: m.group().upper(), expand(rng, x, s).strip()) for x in out))


def stories(seed, count):
    rng = random.Random(seed)
    return [story(rng) for _ in range(count)]


if __name__ == '__main__':
    ap = argparse.ArgumentParser()
    ap.add_argument('--seed', type=int, default=1)
    ap.add_argument('--count', type=int, default=10)
    a = ap.parse_args()
    print('\n'.join(stories(a.seed, a.count)))
