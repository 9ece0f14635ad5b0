# tok-encode --convert, --show, --stats. tests/tok/other.* were made with tiktoken and tokenizers: ranks
# with tokens that merging does not reach, and a tokenizer.json whose merges are not in the order of ids.
. "$(dirname "$0")/../lib.sh"
fix=$top/tests/tok; docs=$fix/docs.jsonl; cd "$dir" || exit 1
row() { printf '{"text":"%s"}\n' "$@"; }
ids() { tok-encode -q --no-bos --ids "$@"; }
bpe-train -q -v 521 -o t.tok "$docs"
row ababab | bpe-train -q -v 267 -o ab.tok 2>/dev/null    # 256 ab, 257 abab, bos 258

# both ways, equal to what the others give
for kind in nanochat gpt2 llama3 cl100k qwen2; do
    ok "ranks as $kind" "tok-encode --convert --pattern $kind $fix/other.tiktoken $kind.tok"
    ok "and its ids" "ids -t $kind.tok $fix/other.jsonl | cmp - $fix/other-$kind.txt"
    ok "and back" "tok-encode --convert $kind.tok $kind.tiktoken && cmp $kind.tiktoken $fix/other.tiktoken"
    ok "$kind as JSON" "tok-encode -q --convert $kind.tok $kind.json && ids -t $kind.json $fix/other.jsonl | cmp - $fix/other-$kind.txt"
done
ok "tokenizer.json" "ids -t $fix/other.json $fix/other.jsonl | cmp - $fix/other-json.txt"
ok "to .tok" "tok-encode --convert $fix/other.json o.tok && ids -t o.tok $fix/other.jsonl | cmp - $fix/other-json.txt"
ok "to .json again" "tok-encode --convert o.tok o.json && tok-encode --convert o.json o2.tok && cmp o.tok o2.tok"
sed 's/^"normalizer": null/"normalizer": {"type": "NFC"}/' $fix/other.json >nfc.json
ok "with form NFC" "ids -t nfc.json $fix/other.jsonl | cmp - $fix/other-nfc.txt"
ok "which a .tok keeps" "tok-encode --convert nfc.json nfc.tok && ids -t nfc.tok $fix/other.jsonl | cmp - $fix/other-nfc.txt"
sed 's/$/\r/; 3s/^/\r\n/' $fix/other.tiktoken >crlf.tiktoken; echo >>crlf.tiktoken
ok "ranks with CR LF and empty lines" "tok-encode --convert --pattern gpt2 crlf.tiktoken crlf.tok && cmp crlf.tok gpt2.tok"
{ echo; cat $fix/other.tiktoken; } >first.tiktoken
ok "  the first of them empty" "tok-encode --convert --pattern gpt2 first.tiktoken first.tok && cmp first.tok gpt2.tok"
says 1 "line 4: not a token" "  other white space is refused, by its line" "sed '4s/ /  /' $fix/other.tiktoken | tr -d '\r' >two.tiktoken; tok-encode --convert --pattern gpt2 two.tiktoken x.tok"
says 1 "cannot be ranks" "merges that are no ranks" "tok-encode --convert o.tok x.tiktoken"
ok "and no file" "! test -e x.tiktoken"
ok "a plain one through JSON" "tok-encode --convert t.tok t.json && tok-encode --convert t.json t2.tok && cmp t.tok t2.tok"
says 0 "9 special tokens are left out" "a plain one as ranks" "tok-encode --convert t.tok t.tiktoken"
ok "has the same ids" "tok-encode --convert t.tiktoken t3.tok --pattern nanochat && ids -t t3.tok $docs | cmp - $fix/ids.txt"
ok "a tokenizer.json encodes as it is" "ids -t t.json $docs | cmp - $fix/ids.txt"
ok "a stream of one is the other's" "tok-encode -t t.json $docs | tok-encode -t t.tok --decode >back && tok-encode -t t.tok $docs | tok-encode -t t.tok --decode | cmp - back"

# what is refused
says 1 "name no pattern" "ranks without a pattern" "tok-encode --convert $fix/other.tiktoken x.tok"
says 1 "name no pattern" "ranks as -t" "ids -t $fix/other.tiktoken $docs"
says 2 "known are nanochat" "an unknown pattern" "tok-encode --convert $fix/other.tiktoken x.tok --pattern o300k"
says 1 "names its pattern itself" "a pattern too many" "tok-encode --convert t.tok x.json --pattern gpt2"
says 2 "ends in .tok" "an unknown format" "tok-encode --convert t.tok x.model"
says 1 "nosuch" "a missing file" "tok-encode --convert nosuch x.tok"
says 1 "not a tokenizer" "documents" "tok-encode --convert $docs x.tok"
says 2 "--tokenizer: not with --convert" "-t with --convert" "tok-encode --convert -t t.tok t.tok x.tok"
for o in "-o x" --ids --decode --text --no-bos "--invalid error" "--bos x" --chat --raw "--max-tokens 3" "--shards 3"; do
    exits 2 "$o with --convert" "tok-encode --convert $o t.tok x.tok"
done
exits 2 "one file" "tok-encode --convert t.tok"
exits 2 "three files" "tok-encode --convert t.tok x.tok y.tok"
exits 2 "--pattern alone" "row a | tok-encode -t t.tok --pattern gpt2"
exits 2 "--show and --stats" "row a | tok-encode -t t.tok --show --stats"
ok "nothing was written" "! test -e x.tok && ! test -e x.json"

# show
is "tokens apart" "row 'abab c\n|\\\\x' '' | tok-encode -t ab.tok --show --no-bos" 'abab| |c|\n|\||\\|x'
is "bos, ids" "row abc | tok-encode -t ab.tok --show --ids" "<|bos|>:258|ab:256|c:99"
is "control characters, parts of characters" \
    "row '\\u001b[\\u0085\\u00e9' | tok-encode -t ab.tok --show --no-bos" '\x1b|[|\xc2|\x85|\xc3|\xa9'
is "the first tokens" "row 'abab c' | tok-encode -t ab.tok --show --max-tokens 2" "<|bos|>|abab"
printf '{"text":"a\377b"}\n' >bad.jsonl
is "bytes that are not UTF-8 are replaced" "tok-encode -q -t ab.tok --show --no-bos bad.jsonl" 'a|\xef|\xbf|\xbd|b'
says 0 "1 invalid sequences replaced" "  and counted" "tok-encode -t ab.tok --show bad.jsonl"
says 1 "bad.jsonl: line 1, byte 11" "  or an error" "tok-encode -t ab.tok --show --invalid error bad.jsonl"
is "a token stream" "row abc | tok-encode -t ab.tok | tok-encode -t ab.tok --show --decode" "<|bos|>|ab|c"
says 1 "made with tokenizer" "another's token stream" "row a | tok-encode -t t.tok | tok-encode -t ab.tok --show --decode"
says 1 "no documents" "nothing to show" "tok-encode -t ab.tok --show </dev/null"
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    row abc >abc.jsonl
    see() { script -qec "$1" /dev/null </dev/null | tr -d '\r' | tr '\033' '^'; }
    is "in colour on a terminal" "see 'TERM=xterm NO_COLOR= tok-encode -t ab.tok --show --no-bos abc.jsonl'" "^[30;47mab^[0m^[30;46mc^[0m"
    is "NO_COLOR" "see 'TERM=xterm NO_COLOR=1 tok-encode -t ab.tok --show --no-bos abc.jsonl'" "ab|c"
    is "a dumb terminal" "see 'TERM=dumb NO_COLOR= tok-encode -t ab.tok --show --no-bos abc.jsonl'" "ab|c"
else skip "colours" "no script(1)"; fi

# stats: 6 + 1 bytes, abab ab / x
row ababab x >s.jsonl; row '' >e.jsonl; : >e.txt
is "a row per file and for all" "tok-encode -t ab.tok --stats s.jsonl e.jsonl | sed -n '2,4s/  */ /gp'" "s.jsonl 2 7 3 2.333 2.333 1.5
e.jsonl 1 0 0 0.000 0.000 0.0
all 3 7 3 2.333 2.333 1.0"
is "the vocabulary" "tok-encode -t ab.tok --stats s.jsonl | sed -n '4,8p'" 'ab.tok: 267 ids, 258 of them ordinary tokens, split as nanochat
  tokens used            3 (1.16% of the ordinary), 3 of them once
  single bytes           33.33%
  tokens a document      1.5 in the mean, 2 at most
  longest                "abab", id 257, 4 bytes, 1 times'
is "bytes that are not UTF-8 are replaced" "tok-encode -q -t ab.tok --stats bad.jsonl | sed -n '2s/  */ /gp'" "bad.jsonl 1 5 5 1.000 0.600 5.0"
says 0 "1 invalid sequences replaced" "  and counted" "tok-encode -t ab.tok -t ab.tok --stats bad.jsonl"
says 1 "bad.jsonl: line 1, byte 11" "  or an error" "tok-encode -t ab.tok --stats --invalid error bad.jsonl"
# plain text, in parts: the numbers are those of the whole
yes 'ab it is  1 x' | head -n 100000 | tr -d '\n' >s.txt; { printf '{"text":"'; cat s.txt; printf '"}\n'; } >st.jsonl
is "of plain text" "tok-encode -t ab.tok -t t.tok --stats --text s.txt | tail -n +6" "$(tok-encode -t ab.tok -t t.tok --stats st.jsonl | tail -n +6)"
is "  a file is a document" "tok-encode -t ab.tok --stats --text s.txt e.txt s.txt | sed -n '5s/  */ /gp'" "all 2 2600000 2400000 1.083 1.083 1200000.0"
says 1 "stdin: byte 1300003: not UTF-8" "  invalid bytes in it" "{ cat s.txt; printf 'ab\377'; } | tok-encode -t ab.tok --stats --text --invalid error"
says 0 "2 invalid sequences replaced" "  replaced" "printf 'ab\377\377' | tok-encode -t ab.tok --stats --text"
bpe-train -q -v 265 -o bytes.tok "$docs" 2>/dev/null
is "two tokenizers" "tok-encode -t bytes.tok -t ab.tok --stats <s.jsonl | sed -n '5s/  */ /gp'" "stdin 7 7 1.000 3 2.333 -57.14% B"
exits 2 "three tokenizers" "tok-encode -t t.tok -t t.tok -t t.tok --stats s.jsonl"
exits 2 "two without --stats" "tok-encode -t t.tok -t t.tok s.jsonl"
[ -w /dev/full ] && exits 1 "/dev/full" "tok-encode -t t.tok --stats -o /dev/full s.jsonl" || skip "/dev/full" "none here"
finish
