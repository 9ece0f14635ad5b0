# nfc16.awk -- writes nfc16.c from the Unicode Character Database 16.0:
#
#     awk -f lib/text/nfc16.awk CompositionExclusions.txt UnicodeData.txt > lib/text/nfc16.c
#
# Canonical decompositions, combining classes, and which characters form NFC may change or join
# to what stands before them. Hangul is arithmetic, in nfc.c.
BEGIN {
    FS = ";"
    npair = njoin = 0
    for (i = 0; i < 16; i++) digit[substr("0123456789abcdef", i + 1, 1)] = i
}
function hex(s,   x, k) {
    s = tolower(s)
    for (k = 1; k <= length(s); k++) x = x * 16 + digit[substr(s, k, 1)]
    return x + 0
}
function after(x, y) { return a[x] > a[y] || (a[x] == a[y] && b[x] > b[y]) }
function put(text) {                    # an element of an array; lines are filled
    if (line != "" && length(line text) > 98) { print line; line = "" }
    line = line (line == "" ? "    " : " ") text ","
}
function end_array() { print line "\n};\n"; line = "" }
function range(lo, hi, c) { put(sprintf("{0x%x, 0x%x, %d}", lo, hi, c)) }

FILENAME ~ /Exclusions/ {
    sub(/[ #].*/, "")
    if ($0 != "") excluded[hex($0)] = 1
    next
}
{
    cp = hex($1)
    ccc[cp] = $4 + 0
    if (cp > last) last = cp
    if ($6 == "" || $6 ~ /</) next
    n = split($6, d, " ")
    at[npair] = cp; a[npair] = hex(d[1]); b[npair] = n > 1 ? hex(d[2]) : 0
    npair++
}
END {
    for (i = 0; i < npair; i++) {
        joins[i] = b[i] && !excluded[at[i]] && !ccc[at[i]] && !ccc[a[i]]
        if (joins[i]) { order[njoin++] = i; loose[b[i]] = 1 } else loose[at[i]] = 1
    }
    if (npair != 2081 || njoin != 961) {
        printf "nfc16.awk: %d decompositions, %d compositions: not Unicode 16.0\n",
            npair, njoin > "/dev/stderr"
        exit 1
    }
    for (i = 1; i < njoin; i++) {               # by the two halves
        x = order[i]
        for (j = i; j > 0 && after(order[j - 1], x); j--) order[j] = order[j - 1]
        order[j] = x
    }
    print "/* nfc16.c -- canonical decomposition and combining classes of Unicode 16.0.0."
    print " * Made by nfc16.awk from UnicodeData.txt and CompositionExclusions.txt; do not edit. */"
    print "#include \"text/nfc.h\"\n"
    print "const uint32_t nfc_pair[NFC_PAIRS][3] = {    /* itself; its halves, or 0 */"
    for (i = 0; i < npair; i++) put(sprintf("{0x%x, 0x%x, 0x%x}", at[i], a[i], b[i]))
    end_array()
    print "const uint16_t nfc_join[NFC_JOINS] = {   /* composing ones, by halves */"
    for (i = 0; i < njoin; i++) put(order[i])
    end_array()
    print "/* Not always unchanged after what stands before: first, last, combining class */"
    print "const uint32_t nfc_loose[][3] = {"
    for (cp = 0; cp <= last + 1; cp++) {
        c = ccc[cp] + 0
        on = c || loose[cp] || (cp >= 4449 && cp <= 4469) || (cp >= 4520 && cp <= 4546)
        if (open && (!on || c != class)) { range(first, cp - 1, class); open = 0 }
        if (on && !open) { open = 1; first = cp; class = c }
    }
    end_array()
    print "const int nfc_loose_n = sizeof nfc_loose / sizeof *nfc_loose;"
}
