# talk.awk -- conversations for the demo's model, as JSON Lines: sums through the calculator, letters
# counted by it, words spelled, opposites, and questions about the world of world.awk.
#
#     awk -v kind=all -v n=3000 -v seed=1 -f share/demo/world.awk -f share/demo/talk.awk
#
# kind: arithmetic, story (sums told as stories, answered as in GSM8K: a call, then "#### N"), counting,
# spelling, opposites, world, or all of them in turn. held=1 gives the
# questions that are held out: a tenth of all sums, a fifth of the words, a fifth of the opposites (of
# which the other direction is not), and a quarter of what can be asked of the people and towns (one
# question each; others about them are not). They never occur without held=1. Same n, seed and kind,
# same bytes.

function str(s) { gsub(/"/, "\\\"", s); return "\"" s "\"" }
function part(type, s) { return "{\"type\": \"" type "\", \"text\": " str(s) "}" }
function say(q, parts) {
    print "{\"messages\": [{\"role\": \"user\", \"content\": " str(q) "}, " \
        "{\"role\": \"assistant\", \"content\": [" parts "]}]}"
}
function call(expr, result) { return part("python", expr) ", " part("python_output", result) ", " }
function number(    d) { d = rnd(10); return d < 2 ? rnd(10) : d < 8 ? rnd(100) : rnd(1000) }

# Tells whether the things numbered i of a kind are held out, one in k: the same in every run.
function out(i, k) { return (i * 7 + 3) % k == 0 }

function arithmetic(    a, b, op, r) {
    do {
        op = substr("+-*", 1 + rnd(3), 1); a = number(); b = number()
        if (op == "*") { a %= 100; b %= 100 }
    } while (out(a * 1009 + b * 3 + index("+-*", op), 10) != held)
    r = op == "+" ? a + b : op == "-" ? a - b : a * b
    say(one("What is|How much is|Please work out") " " a " " op " " b "?", call(a op b, r) part("text", "It is " r "."))
}

function story(    a, b, op, k, s, t, r) {
    do {
        k = rnd(6); op = substr("++--**", 1 + k, 1); a = 1 + rnd(99); b = 1 + rnd(99)
        if (op == "*") { a = 1 + rnd(12); b = 1 + rnd(20) }
        if (op == "-" && a < b) { t = a; a = b; b = t }
    } while (out(a * 1009 + b * 3 + k, 10) != held)
    t = one("apples|eggs|mushrooms|onions|plums|mussels"); s = who[1 + rnd(np)]
    r = op == "+" ? a + b : op == "-" ? a - b : a * b
    if (k == 0) s = s " has " a " " t " and finds " b " more. How many " t " are there now?"
    else if (k == 1) s = s " sells " a " " t " in the morning and " b " in the evening. How many is that in all?"
    else if (k == 2) s = s " has " a " " t " and sells " b " of them. How many are left?"
    else if (k == 3) s = "A basket holds " a " " t ", and " s " takes " b " out. How many stay in it?"
    else if (k == 4) s = s " fills " a " baskets with " b " " t " each. How many " t " is that?"
    else s = s " sells " b " " t " a day. How many in " a " days?"
    say(s, call(a op b, r) part("text", "#### " r))
}

function word(    i) {
    do i = 1 + rnd(nw); while (out(i, 5) != held)
    return words[i]
}

function counting(    w, c, r, i) {
    w = word(); c = substr(w, 1 + rnd(length(w)), 1)
    for (i = 1; i <= length(w); i++) r += substr(w, i, 1) == c
    say("How many times is the letter " c " in " w "?", call("'" w "'.count('" c "')", r) part("text", "It is " r "."))
}

function spelling(    w, s, i) {
    w = word()
    for (i = 1; i <= length(w); i++) s = s (i > 1 ? "-" : "") substr(w, i, 1)
    say("Spell the word " w ".", part("text", s))
}

function contrary(    i, n, p, f, k) {
    n = split(opposites, p, /\|/)
    do { i = 1 + rnd(n); k = 1 + rnd(2) } while (out(i + 2 * k, 5) != held)
    split(p[i], f, /,/)
    say("What is the opposite of " f[k] "?", part("text", "The opposite of " f[k] " is " f[3 - k] "."))
}

function person(    p, k) {
    do { p = 1 + rnd(np); k = rnd(4) } while (out(p + k, 4) != held)
    if (k == 0) say("Where does " who[p] " live?", part("text", who[p] " lives in " town[home[p]] "."))
    else if (k == 1) say("What is the work of " who[p] "?", part("text", who[p] " is " an(job[p]) "."))
    else if (k == 2) say("Which animal does " who[p] " keep?", part("text", who[p] " keeps " an(pet[p]) "."))
    else say("Who is " who[p] "?", part("text", who[p] " is " an(job[p]) ". " cap(pron[p]) " lives in " town[home[p]] "."))
}

function place(    t, k) {
    do { t = 1 + rnd(nt); k = rnd(3) } while (out(t + k, 4) != held)
    if (k == 0) say("Where is " town[t] "?", part("text", town[t] " lies by the " water[t] "."))
    else if (k == 1) say("Which colour have the doors of " town[t] "?", part("text", "All doors of " town[t] " are painted " hue[t] "."))
    else say("Why do people come to " town[t] "?", part("text", "People come to " town[t] " for the " dish[t] "."))
}

BEGIN {
    start()
    held += 0
    nw = split("cat otter hen parrot squirrel horse dog goat seal mule falcon bear owl donkey magpie gull spider toad " \
        "mouse fox turtle pig swan snail baker fisher gardener sailor carpenter farmer smith shepherd diver miner hunter " \
        "beekeeper teacher miller painter ferryman weaver potter clockmaker piper doctor cook singer writer river lake " \
        "island town door road wind rain snow sun star fire stone wood field hill bay basket sack cart box lantern rope " \
        "coat letter map candle apple nail ribbon egg honey cake fish pie bread soup cheese salt onion duck plum jam " \
        "mussel mushroom barley bean blue grey red white green yellow black small quiet old busy warm cold friend story " \
        "song evening morning summer spring winter market house window step tree bird", words, / /)
    for (i = 0; i < (n ? n : 3000); i++) {
        k = kind
        if (k == "all") { k = rnd(10); k = k < 4 ? (rnd(150) ? "arithmetic" : "story") : k < 6 ? "world" : k < 7 ? "opposites" : k < 9 ? "counting" : "spelling" }
        if (k == "arithmetic") arithmetic()
        else if (k == "story") story()
        else if (k == "counting") counting()
        else if (k == "spelling") spelling()
        else if (k == "opposites") contrary()
        else if (rnd(3)) person()
        else place()
    }
}
