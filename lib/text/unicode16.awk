# unicode16.awk -- writes unicode16.c from the Unicode Character Database 16.0:
#
#     awk -f lib/text/unicode16.awk UnicodeData.txt PropList.txt > lib/text/unicode16.c
#
# Two bits per code point, 32 in a word, lowest first: 0 other, 1 letter (general category L*),
# 2 number (N*), 3 White_Space. A hexadecimal digit holds two code points, so words are made as
# strings: no arithmetic past 2^24, any awk will do.
BEGIN {
    FS = ";"
    last = nblock = 0
    for (i = 0; i < 16; i++) digit[substr("0123456789abcdef", i + 1, 1)] = i
}

function hex(s,   x, k) {
    s = tolower(s)
    for (k = 1; k <= length(s); k++) x = x * 16 + digit[substr(s, k, 1)]
    return x + 0
}
function set(lo, hi, c,   x) {
    for (x = lo; x <= hi; x++) class[x] = c
    count[c] += hi - lo + 1
    if (hi > last) last = hi
}
function word(w,   s, x) {              # code points 32w .. 32w + 31
    for (x = 32 * w; x < 32 * w + 32; x += 2)
        s = substr("0123456789abcdef", class[x] + 4 * class[x + 1] + 1, 1) s
    return "0x" s
}
function put(text, per, i) {            # element i of an array, `per` to a line
    printf "%s%s%s", i % per ? " " : "    ", text, (i + 1) % per ? "," : ",\n"
}

FILENAME ~ /UnicodeData/ {
    lo = $2 ~ /, Last>$/ ? first : hex($1)
    if ($2 ~ /, First>$/) { first = hex($1); next }
    c = substr($3, 1, 1)
    if (c == "L") set(lo, hex($1), 1)
    else if (c == "N") set(lo, hex($1), 2)
    next
}
/; *White_Space/ {
    gsub(/ /, "", $1)
    n = split($1, r, "[.][.]")
    set(hex(r[1]), hex(r[n]), 3)
}

END {
    if (count[1] != 141028 || count[2] != 1911 || count[3] != 25) {
        printf "unicode16.awk: %d letters, %d numbers, %d spaces: not Unicode 16.0\n",
            count[1], count[2], count[3] > "/dev/stderr"
        exit 1
    }
    print "/* unicode16.c -- letters, numbers and white space of Unicode 16.0.0."
    print " * Made by unicode16.awk from UnicodeData.txt and PropList.txt; do not edit."
    print " * Two bits per code point (UC_...), 32 in a word. */"
    print "#include \"text/split.h\"\n"
    print "const uint64_t unicode_bmp[65536 / 32] = {"
    for (w = 0; w < 2048; w++) put(word(w), 4, w)
    print "};\n"

    npage = int((last - 65536) / 256) + 1       # pages of 256 code points; equal ones are shared
    for (p = 0; p < npage; p++) {
        s = ""
        for (w = 0; w < 8; w++) s = s (w ? (w == 4 ? ",\n     " : ", ") : "") word(2048 + 8 * p + w)
        if (!(s in seen)) { seen[s] = nblock; block[nblock++] = s }
        page[p] = seen[s]
    }
    print "/* planes 1 up: page[(cp - 65536) / 256] is a row of rest; past its end is UC_OTHER */"
    print "#define PAGES " npage
    print "static const uint8_t page[PAGES] = {"
    for (p = 0; p < npage; p++) put(page[p], 20, p)
    if (p % 20) print ""
    print "};\n"
    print "static const uint64_t rest[][8] = {"
    for (p = 0; p < nblock; p++) printf "    {%s},\n", block[p]
    print "};\n"
    print "int unicode_class(uint32_t cp)"
    print "{"
    print "    if (cp < 65536)"
    print "        return unicode_bmp[cp / 32] >> (cp % 32 * 2) & 3;"
    print "    uint32_t p = (cp - 65536) / 256;"
    print "    return p < PAGES ? rest[page[p]][cp % 256 / 32] >> (cp % 32 * 2) & 3 : UC_OTHER;"
    print "}"
}
