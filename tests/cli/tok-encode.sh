. "$(dirname "$0")/../lib.sh"
docs=$top/tests/tok/docs.jsonl; cd "$dir" || exit 1
row() { printf '{"text":"%s"}\n' "$@"; }
bpe-train -q -v 521 --doc-cap 0 -o t.tok "$docs"
row ababab | bpe-train -q -v 267 -o ab.tok 2>/dev/null    # 256 ab, 257 abab, bos 258

ok "--help" "tok-encode --help"
exits 2 "no tokenizer" "row a | tok-encode"
exits 2 "unknown option" "tok-encode -t t.tok --frobnicate"
exits 2 "bad number" "row a | tok-encode -t t.tok --max-tokens 3x"
# what cannot act is refused by name, in each kind of work
refused() { # WORK OPTION...: the line "tok-encode: --OPTION: WHY" for each, or what came instead
    work=$1; shift
    for o in "$@"; do
        row a | tok-encode -t t.tok $work $o >out 2>log
        [ $? = 2 ] && [ ! -s out ] && grep -q "^tok-encode: ${o%% *}: $why" log || { echo "$work $o:"; cat out log; }
    done
}
why='only with --'
is "options of other work, encoding" "refused '' --raw --completion '--template chatml' '--pattern gpt2'" ""
why='not with --decode'
is "  decoding" "refused --decode --text '--invalid error' '--bos x' --no-bos '--eos x' --allow-special --deny-special '--max-tokens 2' '--shards 2' '--shard-size 2' --completion '--template llama3' '--pattern gpt2'" ""
is "  showing a stream" "refused '--show --decode' '--invalid error' --no-bos '--max-tokens 2' --raw" ""
why='not with --show'
is "  showing" "refused --show --text '--bos x' '--eos x' --allow-special --deny-special '--shards 2' '--shard-size 2' --raw --completion '--template llama3' '--pattern gpt2'" ""
why='not with --chat'
is "  conversations" "refused --chat --text --no-bos '--eos x' --allow-special --deny-special --raw '--pattern gpt2'" ""
is "  showing them" "refused '--chat --show' '--bos x' '--shards 2'" ""
why='not with --stats'
is "  counting" "refused --stats --ids '--bos x' --no-bos '--eos x' --allow-special --deny-special '--max-tokens 2' '--shards 2' '--shard-size 2' --decode --raw --chat --completion '--template llama3' '--pattern gpt2'" ""
exits 2 "--chat and --decode" "tok-encode -t t.tok --chat --decode"
exits 2 "--bos and --no-bos" "row a | tok-encode -t t.tok --bos x --no-bos"
exits 2 "--shards and --shard-size" "row a | tok-encode -t t.tok --shards 2 --shard-size 3 -o x"
exits 2 "--shards of text" "row a | tok-encode -t t.tok --shards 2 --ids -o x"
says 1 "nosuch" "missing file" "tok-encode -t t.tok nosuch"
says 1 "nosuch" "missing tokenizer" "tok-encode -t nosuch $docs"
says 1 "not a tokenizer" "documents as tokenizer" "tok-encode -t $docs $docs"
[ -w /dev/full ] && exits 1 "/dev/full" "tok-encode -t t.tok -o /dev/full $docs" || skip "/dev/full" "none here"
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    ok "binary is not written to a terminal" \
        "! script -qec 'tok-encode -t t.tok $docs' /dev/null >tty.txt && grep -q terminal tty.txt"
else skip "binary is not written to a terminal" "no script(1)"; fi

# there
ok "ids equal the golden ones" "tok-encode -t t.tok --ids --no-bos $docs | cmp - $top/tests/tok/ids.txt"
is "bos comes first" "row abab '' x | tok-encode -t ab.tok --ids" "258 257
258
258 120"
is "--no-bos" "row abab '' x | tok-encode -t ab.tok --ids --no-bos" "257

120"
is "--max-tokens" "row xyz x | tok-encode -t ab.tok --ids --max-tokens 2" "258 120
258 120"
says 0 "2 tokens past --max-tokens were dropped" "what is cut is said" "row xyz | tok-encode -t ab.tok --ids --max-tokens 2"
is "a control string is ordinary" "row '<|bos|>' | tok-encode -t ab.tok --ids" "258 60 124 98 111 115 124 62"
is "a lone surrogate is replaced" "row 'a\\ud800b' | tok-encode -t ab.tok --ids --no-bos" "97 239 191 189 98"
says 0 "3 documents, 5 bytes, 5 tokens, 1.000 bytes a token" "the report" "row abab '' x | tok-encode -t ab.tok"
says 1 "no documents in stdin" "no documents" "tok-encode -t t.tok </dev/null"
says 1 "no documents in empty" "no documents in a file" ": >empty; tok-encode -t t.tok -o x empty"
ok "and no output" "! test -e x"
says 1 "line 2" "a bad line is named" "{ row a; echo '[1]'; } | tok-encode -t t.tok -o x"
says 1 "line 1: has \"messages\"" "conversations" "echo '{\"messages\":[]}' | tok-encode -t t.tok -o x"
ok "a reader that stops is no error" "for i in 1 2 3 4 5 6 7 8 9; do cat $docs $docs $docs; done >many; tok-encode -t t.tok --ids many 2>log | head -n 1 >first; test -s first && ! grep -i pipe log"

# and back
ok "documents come back" "tok-encode -t t.tok -o t.tokens $docs && tok-encode -t t.tok --decode t.tokens | cmp - $docs"
ok "as ids too" "tok-encode -t t.tok --ids $docs | tok-encode -t t.tok --ids --decode | cmp - $docs"
ok "without bos" "tok-encode -t t.tok --no-bos $docs | tok-encode -t t.tok --decode | cmp - $docs"
ok "two streams are one" "cat t.tokens t.tokens | tok-encode -t t.tok --decode >2 && cat $docs $docs | cmp - 2"
ok "equal runs, equal bytes" "tok-encode -t t.tok <$docs | cmp - t.tokens"
is "--raw has nothing between" "row ab 'c\\n' d | tok-encode -t ab.tok | tok-encode -t ab.tok --decode --raw | od -An -c | tr -d ' '" 'abc\nd'
is "--raw is byte exact" "echo 258 240 159 | tok-encode -t ab.tok --ids --decode --raw | od -An -tx1 | tr -d ' '" "f09f"
is "JSON replaces" "echo 258 97 240 159 98 | tok-encode -t ab.tok --ids --decode" '{"text":"a�b"}'
is "special tokens are their names" "echo 258 97 258 260 | tok-encode -t ab.tok --ids --decode" '{"text":"a<|bos|><|user_end|>"}'
is "spaces, tabs, CR LF, empty lines" "printf ' 97\t98 \r\n\n99' | tok-encode -t ab.tok --ids --decode" '{"text":"ab"}
{"text":""}
{"text":"c"}'
says 1 "stdin: line 2: 267 is no token" "unknown id" "printf '97\n98 267\n' | tok-encode -t ab.tok --ids --decode"
says 1 "line 1: 4294967295 is no token" "the largest id" "echo 4294967295 | tok-encode -t ab.tok --ids --decode"
says 1 "'4294967296" "an id past 32 bits" "echo 4294967296 | tok-encode -t ab.tok --ids --decode"
says 1 "line 1, byte 4: '-1' is no token" "a negative id" "echo '97 -1' | tok-encode -t ab.tok --ids --decode"
says 1 "'9x' is no token" "not a number" "echo 9x | tok-encode -t ab.tok --ids --decode"
says 1 "no documents in stdin" "nothing to decode" "tok-encode -t ab.tok --ids --decode </dev/null"
h() { tail -c 8 "$1" | od -An -tx1 | awk '{for (i = 8; i > 0; i--) printf "%s", $i}'; }
says 1 "$(h t.tok), but ab.tok is $(h ab.tok)" "another tokenizer's stream: both hashes" "tok-encode -t ab.tok --decode t.tokens"
size=$(wc -c <t.tokens)
for k in 5 $((size / 2)) $((size - 1)); do
    exits 1 "a stream that ends after $k bytes" "head -c $k t.tokens | tok-encode -t t.tok --decode"
done

# long stretches, and quickly
{ printf '{"text":"'; head -c 1000000 /dev/zero | tr '\0' ' '; printf 'x"}\n{"text":"'
  head -c 1000000 /dev/zero | tr '\0' '^'; printf '"}\n{"text":"'
  head -c 1000000 /dev/zero | tr '\0' a; printf '"}\n{"text":"'
  head -c 400000 /dev/zero | od -An -v -tx1 | tr -d '\n' | tr ' 0' 'qz'; printf '"}\n'; } >long
ok "a million of one character" "timeout 20 tok-encode -t t.tok -o l.tokens long"
ok "and back" "tok-encode -t t.tok --decode l.tokens | cmp - long"
# ranks of all bytes and of 2 to 2799 letters a: they merge in twos, so the longest that come are 2048
LC_ALL=C awk 'BEGIN { d = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    for (c = 0; c < 256; c++) print substr(d, int(c / 4) + 1, 1) substr(d, c % 4 * 16 + 1, 1) "== " c
    for (n = 2; n <= 2799; n++) { if (n % 3 == 0) s = s "YWFh"; print s (n % 3 == 1 ? "YQ==" : n % 3 == 2 ? "YWE=" : "") " " 254 + n }
}' </dev/null >runs.tiktoken
tok-encode --convert --pattern nanochat runs.tiktoken runs.tok
head -c 2000000 /dev/zero | tr '\0' a >a.txt
is "tokens that begin each other, 2 MB of them" "timeout 20 tok-encode -q -t runs.tok --text --no-bos --ids a.txt | tr ' ' '\n' | uniq -c | tr -s ' '" " 976 2302
 1 1406"

# any number of threads, any block, file or pipe: the same bytes
cat "$docs" "$docs" >two; row '\u0000 x' "$(head -c 30000 /dev/zero | tr '\0' q)" '' "it's  \\n\\n so"'  '  >>two
printf '\n \r\n{"id":[1,{"a":2}],"text":"\\ud83d\\ude00 \\ud83d"}\r\n{"text":"the end"}' >>two
tok-encode -q -j 1 -t t.tok -o ref two
tok-encode -q -j 1 -t t.tok --ids two >ref.ids
for k in 1 2 3 64 1000 65536 4194304; do
    for j in 1 2 5; do
        PIPEGPT_BLOCK=$k tok-encode -q -j $j -t t.tok two | cmp -s - ref || echo "block $k, $j threads"
        PIPEGPT_BLOCK=$k tok-encode -q -j $j -t t.tok --ids two | cmp -s - ref.ids || echo "ids: block $k, $j threads"
    done
done >differ
is "blocks from 1 byte to 4 MB, 1 to 5 threads" "cat differ" ""
ok "from a pipe" "cat two | tok-encode -q -t t.tok | cmp - ref"
ok "from gzip" "gzip -c two | tok-encode -q -j 3 -t t.tok | cmp - ref"
ok "several files are one stream" "tok-encode -q -t t.tok two two | tok-encode -t t.tok --ids --decode >/dev/null; tok-encode -q -t t.tok --ids two two >a; cat ref.ids ref.ids | cmp - a"
# each way to split text, in the same way
for kind in gpt2 llama3 cl100k qwen2; do
    tok-encode -q --convert t.tok t.tiktoken 2>/dev/null
    tok-encode --convert --pattern $kind t.tiktoken $kind.tok
    tok-encode -q -j 1 -t $kind.tok --no-bos -o kind.ref two
    for k in 1 3 64 1000 65536; do
        for j in 1 3; do
            PIPEGPT_BLOCK=$k tok-encode -q -j $j -t $kind.tok --no-bos two | cmp -s - kind.ref || echo "$kind: block $k, $j threads"
        done
    done
done >differ
is "  with other patterns" "cat differ" ""
for c in base avx2 avx512; do
    if PIPEGPT_CPU=$c tok-encode -q -t t.tok -o cpu.out two 2>cpu.log || ! grep -q 'cannot run' cpu.log; then
        ok "PIPEGPT_CPU=$c gives the same" "cmp cpu.out ref"
    fi
done

# plain text
{ sed 's/^{"text":"//; s/"}$//' "$docs"; printf 'no  line end at the end  '; } | tok-encode -q -t t.tok --text -j 1 -o text.ref
tok-encode -q -t t.tok --decode --raw text.ref >text
tok-encode -q -t t.tok --decode text.ref >text.jsonl
ok "--text: one document, its bytes come back" "test \$(wc -l <text.jsonl) = 1 && tok-encode -q -t t.tok text.jsonl | cmp - text.ref"
for k in 1 5 100 4096 100000; do
    for j in 1 3; do
        PIPEGPT_BLOCK=$k tok-encode -q -j $j -t t.tok --text text | cmp -s - text.ref || echo "--text: block $k"
        PIPEGPT_BLOCK=$k tok-encode -q -j $j -t t.tok text.jsonl | cmp -s - text.ref || echo "a long row: block $k"
        PIPEGPT_BLOCK=$k tok-encode -q -j $j -t t.tok --text --max-tokens 1000 --ids text
    done
done >differ
is "--text and long rows: any block" "grep -v '^[0-9 ]*$' differ" ""
is "--max-tokens of parts" "sort -u differ | wc -l; head -n 1 differ | wc -w" "1
1000"
is "two files, two documents" "printf a >1; printf b >2; tok-encode -q -t ab.tok --text --ids 1 2" "258 97
258 98"
says 1 "no documents in empty" "an empty text is none" ": >empty; tok-encode -t ab.tok --text -o x empty"
is "  nor is it beside others" "tok-encode -q -t ab.tok --text --ids 1 empty 2" "258 97
258 98"

# bytes that are not UTF-8
is "replaced: a subpart each" "printf '{\"text\":\"a\\377\\376 \\346\\255b\"}\n{\"text\":\"c\"}\n' | tok-encode -q -t ab.tok --ids --no-bos" "97 239 191 189 239 191 189 32 239 191 189 98
99"
says 0 "3 invalid sequences replaced" "and counted" "printf '{\"text\":\"a\\377\\376 \\346\\255b\"}\n{\"text\":\"c\"}\n' | tok-encode -t ab.tok --ids"
says 1 "stdin: line 2, byte 11" "--invalid error" "printf '{\"text\":\"c\"}\n{\"text\":\"a\\377b\"}\n' | tok-encode -t ab.tok --ids --invalid error"
is "in plain text" "printf 'ab\\300\\200\\360\\237' | tok-encode -q -t ab.tok --text --ids --no-bos" "256 239 191 189 239 191 189 239 191 189"
says 1 "stdin: byte 5: not UTF-8" "in plain text: an error" "printf 'abc \\377b' | tok-encode -t ab.tok --text --ids --invalid error"
says 1 "line 1, byte 15" "an error behind what was replaced: the byte of the file" "printf '{\"text\":\"\\377\\377\\377\\377\"]' | PIPEGPT_BLOCK=1 tok-encode -t ab.tok --ids"
says 1 "line 3, byte 9" "the line is that of the file, in small blocks" "printf '{\"text\":\"a\"}\n\n{\"text\":nul}\n' | PIPEGPT_BLOCK=1 tok-encode -j 3 -t ab.tok --ids"

# special tokens
is "--allow-special" "row 'ab<|bos|>ab <|user_end|>' | tok-encode -q -t ab.tok --ids --allow-special" "258 256 258 256 32 260"
is "white space before one is at an end" "row 'a  <|bos|>b' | tok-encode -q -t ab.tok --ids --no-bos --allow-special" "97 32 32 258 98"
is "an unfinished name is text" "row '<|bos|' | tok-encode -q -t ab.tok --ids --no-bos --allow-special" "60 124 98 111 115 124"
for k in 1 3 9 1000; do PIPEGPT_BLOCK=$k tok-encode -q -t ab.tok --text --ids --allow-special -j 2 <<END
x a <|bos|> b
<|bos|><|bos|>
<|bos|>c ab <|user_start|>
END
done >differ
is "in parts" "sort -u differ" "258 120 32 97 32 258 32 98 10 258 258 10 258 99 32 256 32 259 10"
# in parts, and behind what was repaired, the byte is that of the text or the file
{ printf '{"text":"c"}\n{"text":"'; yes 'word word' | head -n 3000 | tr '\n' ' '; printf '<|bos|>"}\n'; } >deny.jsonl
for k in 1 100 1048576; do
    says 1 "deny.jsonl: line 2: the text has <|bos|> at its byte 30001" "--deny-special in a long row, blocks of $k" "PIPEGPT_BLOCK=$k tok-encode -t ab.tok --deny-special -o x deny.jsonl"
    says 1 "stdin: the text has <|bos|> at its byte 30001" "  and in plain text" "sed -n '2s/.*\"\(.*\)\"}/\1/p' deny.jsonl | PIPEGPT_BLOCK=$k tok-encode -t ab.tok --text --deny-special -o x"
done
says 1 "at its byte 5" "--deny-special behind bytes that were replaced" "printf '\377\377 a<|bos|>' | tok-encode -t ab.tok --text --deny-special -o x"
says 1 "at its byte 3014" "  in parts" "{ yes 'word word' | head -n 300 | tr '\n' ' '; printf 'a \340\277\377 word ab<|bos|>'; } | PIPEGPT_BLOCK=64 tok-encode -t ab.tok --text --deny-special -o x"
says 1 "line 2: the text has <|bos|> at its byte 3" "--deny-special" "row ab 'ab<|bos|>' | tok-encode -t ab.tok --deny-special -o x"
ok "--deny-special without one" "row ab '<|bos>' | tok-encode -q -t ab.tok --deny-special -o x"
exits 2 "--allow-special and --deny-special" "row a | tok-encode -t ab.tok --allow-special --deny-special"
is "--eos and --bos" "row a '' | tok-encode -q -t ab.tok --ids --bos '<|user_start|>' --eos '<|user_end|>'" "259 97 260
259 260"
says 1 "has no special token <|x|>" "--eos that is not there" "row a | tok-encode -t ab.tok --eos '<|x|>'"

# several output files
mkdir sh; tok-encode -q -t t.tok --shards 3 -o sh/x.tokens two
is "--shards" "ls sh | tr '\n' ' '" "x-00000.tokens x-00001.tokens x-00002.tokens "
is "documents take turns" "for k in 0 1 2; do tok-encode -q -t t.tok --decode sh/x-0000\$k.tokens | awk -v k=\$k '{print 3 * NR + k - 3, \$0}'; done | sort -n | sed 's/^[0-9]* //' | tok-encode -q -t t.tok | cmp - ref" ""
tok-encode -q -t t.tok --shard-size 1000 -o sh/y.tokens two
ok "--shard-size" "test -e sh/y-00002.tokens && cat sh/y-*.tokens | tok-encode -q -t t.tok --decode | tok-encode -q -t t.tok | cmp - ref"
exits 2 "--shards to stdout" "tok-encode -t t.tok --shards 2 two"
says 0 "sh/x-00002.tokens: left over from an earlier run; this one wrote 2" "a file of an earlier run stays, and is named" "tok-encode -t t.tok --shards 2 -o sh/x.tokens two; test -e sh/x-00002.tokens"
says 0 "more: left over from an earlier run; this one wrote 1" "  with --shard-size too" "touch sh/y-000001.tokens sh/y-7.tokens sh/yy-00009.tokens; tok-encode -t t.tok --shard-size 1M -o sh/y.tokens two"
ok "  and else nothing is said" "(cd sh; tok-encode -t t.tok --shards 3 -o z.tokens ../two 2>&1 | grep -c 'left over') | grep -x 0"
if (ulimit -Sn 64) 2>/dev/null; then
    is "more files than the soft limit" "(ulimit -Sn 64; tok-encode -q -t t.tok --shards 200 -o many.tokens two); ls many-*.tokens | wc -l" 200
    rm -f many-*
    says 1 "--shards 200: so many files cannot be open at once here, only 64 (ulimit -Hn); with --shard-size" "than the hard one" "(ulimit -n 64; tok-encode -t t.tok --shards 200 -o many.tokens two)"
    ok "  of which there is none then" "! ls many-*"
fi
finish
