# cjk.awk -- text shaped like Chinese, as JSON Lines: LC_ALL=C awk -v bytes=N -v seed=N -f cjk.awk
#
# 40,000 words of 1 to 4 characters, of 3,500 characters; words and characters drawn by rank, the
# chance about 1 / rank; clauses of 5 to 20 characters, hardly any of which comes twice. The words
# are the same for every seed.
function next_random() { x = x * 16807 % 2147483647; return x / 2147483647 }
function rank(n) { return int(exp(next_random() * log(n + 1)) - 1) }
function utf8(c) {
    return sprintf("%c%c%c", 224 + int(c / 4096), 128 + int(c / 64) % 64, 128 + c % 64)
}
BEGIN {
    x = 20260101
    for (i = 0; i < 3500; i++) char[i] = utf8(19968 + i * 5971 % 20902)
    for (i = 0; i < 40000; i++) {
        r = next_random()
        len[i] = i < 300 ? (r < 0.8 ? 1 : 2) : r < 0.1 ? 1 : r < 0.75 ? 2 : r < 0.9 ? 3 : 4
        for (k = 0; k < len[i]; k++) word[i] = word[i] char[rank(3500)]
    }
    comma = utf8(65292); stop = utf8(12290)
    for (x = 48271 * seed + 1; made < bytes; ) {
        printf "{\"text\": \""
        for (left = 300 + int(next_random() * 3000); left > 0; left -= n) {
            for (n = 0; n < 5 + int(next_random() * 16); n += len[i]) {
                i = rank(40000)
                printf "%s", word[i]
            }
            made += 3 * n + 3
            printf "%s", next_random() < 0.7 ? comma : next_random() < 0.8 ? stop : stop "\\n"
        }
        print "\"}"
    }
}
