# world.awk -- a small invented world, told in short texts separated by blank lines.
#
#     awk -v n=3000 -v seed=1 -f share/demo/world.awk
#
# talk.awk, which asks about this world, uses what stands here.
#
# The island of Ombria has twelve towns and twenty-four people. Who lives where, does what and keeps
# which animal never changes, so that a model can learn it; what happens to them does. Every word is
# chosen here, by a random generator of our own (awk's differ), so the same n and seed give the same
# bytes everywhere.

function rnd(k) { x = (x * 16807) % 2147483647; return int(x / 2147483647 * k) }     # 0 .. k-1
function one(list,    w, k) { k = split(list, w, /\|/); return w[1 + rnd(k)] }
function cap(s) { return toupper(substr(s, 1, 1)) substr(s, 2) }
function an(s) { return (s ~ /^[aeiou]/ ? "an " : "a ") s }

function world(    i, row, f) {
    opposites = "hot,cold|big,small|old,new|wet,dry|fast,slow|light,dark|high,low|full,empty|near,far|loud,quiet"
    nt = split("Arvel,blue,river Sill,honey cakes|Brock,grey,lake Oun,smoked fish|" \
        "Calder,red,river Sill,apple pies|Dunmore,white,Salt Bay,mussels|Ebber,green,Long Wood,mushrooms|" \
        "Fallow,yellow,Great Field,barley bread|Garrow,black,Iron Hill,bean soup|" \
        "Hest,white,river Amber,goat cheese|Inver,blue,Salt Bay,sea salt|Jorrel,red,Iron Hill,onion tarts|" \
        "Kell,green,lake Oun,duck eggs|Linden,yellow,river Amber,plum jam", row, /\|/)
    for (i = 1; i <= nt; i++) { split(row[i], f, /,/); town[i] = f[1]; hue[i] = f[2]; water[i] = f[3]; dish[i] = f[4] }
    np = split("Ada,baker,she,1,cat|Bram,fisher,he,2,otter|Cato,gardener,he,3,hen|Dora,sailor,she,4,parrot|" \
        "Edda,carpenter,she,5,squirrel|Finn,farmer,he,6,horse|Greta,smith,she,7,dog|Hugo,shepherd,he,8,goat|" \
        "Ilse,diver,she,9,seal|Jonas,miner,he,10,mule|Kira,hunter,she,11,falcon|Lars,beekeeper,he,12,bear|" \
        "Mira,teacher,she,1,owl|Nils,miller,he,2,donkey|Olga,painter,she,3,magpie|Piet,ferryman,he,4,gull|" \
        "Rosa,weaver,she,5,spider|Sven,potter,he,6,toad|Tilda,clockmaker,she,7,mouse|Ulf,piper,he,8,fox|" \
        "Vera,doctor,she,9,turtle|Wim,cook,he,10,pig|Yara,singer,she,11,swan|Zeno,writer,he,12,snail", row, /\|/)
    for (i = 1; i <= np; i++) { split(row[i], f, /,/); who[i] = f[1]; job[i] = f[2]; pron[i] = f[3]; home[i] = f[4] + 0; pet[i] = f[5] }
}

function about_town(    t, i, s) {
    t = 1 + rnd(nt)
    s = town[t] " is " an(one("small|quiet|old|busy")) " town on the island of Ombria. It lies by the " water[t] \
        ", and all its doors are painted " hue[t] ". People come to " town[t] " for the " dish[t] "."
    for (i = 1; i <= np; i++)
        if (home[i] == t) s = s " " who[i] " the " job[i] " lives here with " (pron[i] == "he" ? "his " : "her ") pet[i] "."
    return s
}

function about_person(    p) {
    p = 1 + rnd(np)
    return who[p] " is " an(job[p]) ". " cap(pron[p]) " lives in " town[home[p]] ", in the house with the " hue[home[p]] \
        " door. " who[p] " keeps " an(pet[p]) ", and the " pet[p] " " one("sleeps by the fire|follows " who[p] " everywhere|" \
        "likes " dish[home[p]] " very much|is afraid of thunder") "."
}

function journey(    a, b, p, q, h, s) {
    p = 1 + rnd(np); q = 1 + rnd(np); if (p == q) q = p % np + 1
    a = town[home[p]]; b = town[home[q]]; h = pron[p]
    s = one("One morning|On a cold day|Last spring|After the rain|At the end of summer") ", " who[p] " the " job[p] \
        " walked from " a " to " (a == b ? "the other side of the town" : b) " to visit " who[q] " the " job[q] ". "
    s = s cap(h) " took " one("a basket|a sack|a small cart|a box") " of " dish[home[p]] " and " \
        one("a lantern|a long rope|a warm coat|a letter|an old map") ". "
    s = s one("The road was long, but the sun was warm. |It began to snow, and the road was hard to find. |" \
        "A strong wind came from the sea. |The birds were singing in the trees. ")
    s = s "When " h " came to the house with the " hue[home[q]] " door, the " pet[q] " of " who[q] " " \
        one("ran out to meet " (h == "he" ? "him" : "her") "|was asleep on the step|looked out of the window") ". "
    s = s "\"" one("Good day|Welcome|Come in|How good to see you") ", " who[p] "!\" said " who[q] ". \"" \
        one("Sit down and eat some " dish[home[q]] "|Have you brought " dish[home[p]] " again|" \
        "You must be tired after such a long way|I was just thinking of you") (rnd(2) ? "." : ", my friend.") "\" "
    return s one("They talked until the stars came out.|They sat by the fire and told old stories.|" \
        "In the evening they sang a song about the island.|The next day " who[p] " went home happy.")
}

function trade(    p, a, b, h) {
    p = 1 + rnd(np); a = 2 + rnd(8); b = 2 + rnd(8); h = pron[p]
    return who[p] " the " job[p] " went to the market in " town[1 + rnd(nt)] ". " cap(h) " bought " a " " \
        one("candles|apples|nails|ribbons|eggs") " in the morning and " b " more in the afternoon. Now " h " has " a + b ". " \
        one("\"That is enough,\" said " who[p] ".|\"" cap(a + b) " is a good number,\" said " who[p] ".|" \
        "Then " h " went home to the " pet[p] ".")
}

function opposite(    w, f) {
    split(one(opposites), f, /,/)
    w = 1 + rnd(np)
    return "\"What is the opposite of " f[1] "?\" asked " who[w] " the " job[w] ". \"The opposite of " f[1] " is " f[2] \
        ", and the opposite of " f[2] " is " f[1] ",\" said the " one("children|old people|guests") " of " town[home[w]] "."
}

function start(    i) {
    x = (seed ? seed : 1) * 7919 % 2147483646 + 1
    for (i = 0; i < 8; i++) rnd(2)
    world()
}

function text(    k) {
    k = rnd(10)
    return k < 4 ? journey() : k < 6 ? about_person() : k < 7 ? about_town() : k < 9 ? trade() : opposite()
}

BEGIN {
    if (!kind) {                        # else conversations are asked for
        start()
        for (i = 0; i < (n ? n : 3000); i++) print text() "\n"
    }
}
