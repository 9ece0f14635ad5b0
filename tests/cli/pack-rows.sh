. "$(dirname "$0")/../lib.sh"
# Streams in pack-rows/, vocabulary 300, <|bos|> 256, made with tokens.h:
#   docs       documents of 10, 10, 10, 40 tokens; the first is <|bos|>, then 60 d + k (k = 1 ..)
#   one        a document of 17 tokens              other   the same, made with another tokenizer
#   none       no document                          wide    vocabulary 65,537, ids 65536 65477 ..
#   chat       conversations of 40, 30, 20 tokens, mask 1 from the fourth token on
#   long-chat  ten of 65 to 400                     bad-bos the second document begins with 7
#   no-bos     a tokenizer without <|bos|>; one document of 17 tokens, one of none
here=$(cd "$(dirname "$0")" && pwd)/pack-rows
cd "$dir" || exit 1
cp "$here"/*.tokens .
ids() { tail -c +57 "$1" | od -An -v -tu2 -w"$(($3 * 2))" | head -n "$2" | tr -s ' '; }
gone() { [ -z "$(ls | grep -E "^$1")" ]; }          # no file begins so, not even a temporary
repeat() { i=0; while [ $i -lt "$1" ]; do cat "$2"; i=$((i + 1)); done; }

# ---- command line
is "help names every option" "pack-rows --help | grep -cE -- '^ {2,6}(-., )?--(seq-len|output|keep-tails|sft|long|buffer|shard-rows|force|check) '" 9
says 2 "--sfd" "unknown option" "pack-rows --sfd"
says 2 "-T" "T of 0" "pack-rows -T 0"
says 2 "-T" "T too large" "pack-rows -T 16777217"
says 2 "-T" "no number" "pack-rows -T 10x"
says 2 "--buffer" "negative buffer" "pack-rows --buffer -1"
says 2 "-o" "no name" "pack-rows -o data/"
says 2 "-o" "stdout" "pack-rows -o - docs.tokens"
says 2 "-o 'd/..': a name is needed" "a prefix that is a folder's dots" "mkdir d; pack-rows -T 15 -o d/.. docs.tokens; r=\$?; rmdir d; exit \$r"
says 1 "/dev/null: not a place for row shards" "a device as prefix" "pack-rows -T 15 -o /dev/null docs.tokens"
says 2 "--long" "--long without --sft" "pack-rows --long drop docs.tokens"
says 2 "--keep-tails" "--keep-tails with --sft" "pack-rows --keep-tails --sft chat.tokens"
says 2 "--shard-rows" "one file of many shards" "pack-rows -o a.rows --shard-rows 5 docs.tokens"
says 2 "--check" "nothing to check" "pack-rows --check"
says 1 "nofile: " "missing file" "pack-rows -o x nofile"
says 1 "stdin: empty" "an empty stdin" "pack-rows -o x </dev/null"
says 1 "not a token stream" "something else" "seq 100 | pack-rows -o x"
says 1 "No space" "full disk" "ln -s /dev/full full.rows; repeat 3000 docs.tokens | pack-rows -T 15 -o full.rows"
says 1 "cannot create" "no such folder" "pack-rows -T 15 -o nowhere/a docs.tokens"
ok "nothing is left of all that" "gone x"

# ---- pretraining
is "what stands where" "pack-rows -q -T 15 -o a docs.tokens; ids a-00000.rows 2 16" \
" 256 1 2 3 4 5 6 7 8 9 256 61 62 63 64 65
 256 121 122 123 124 125 126 127 128 129 256 181 182 183 184 185"
says 0 "in: 4 documents, 70 tokens" "says what came in" "pack-rows -T 15 -o a docs.tokens"
says 0 "out: 2 rows of 16 tokens in 1 shard, 100.00% full" "what went out" "pack-rows -T 15 -o a docs.tokens"
says 0 "tokens: 32 in rows, 38 cropped (2 documents), 0 dropped (0 whole documents), 0 padding" "and what did not" \
    "pack-rows -T 15 -o a docs.tokens"
says 0 "16 in rows, 1 cropped (1 document), 0 dropped" "T + 2 tokens" "pack-rows -T 15 -o b one.tokens"
says 0 "17 in rows, 0 cropped (0 documents), 0 dropped" "T + 1 tokens" "pack-rows -T 16 -o b one.tokens"
says 1 "one.tokens: too few tokens: 17 found in 1 document, a row needs 18" "T tokens" "pack-rows -T 17 -o few one.tokens"
says 1 "none.tokens: too few tokens: 0 found in 0 documents, a row needs 18" "no tokens" "pack-rows -T 17 -o few.rows none.tokens"
ok "and no file" "gone few"
says 0 "34 in rows, 0 cropped (0 documents), 17 dropped (0 whole documents)" "a last row that is not full is dropped" \
    "pack-rows -T 33 -o b one.tokens one.tokens one.tokens"
says 0 "54% of all tokens were cropped" "warns when most is cropped" "pack-rows -T 15 -o a docs.tokens"
says 0 "tokens: 64 in rows, 0 cropped (0 documents), 10 dropped" "--keep-tails crops nothing" \
    "pack-rows -T 15 --keep-tails -o k docs.tokens"
is "a tail begins with <|bos|>" "ids k-00000.rows 4 16 | tail -n 2" \
" 256 1 2 3 4 5 6 7 8 9 256 61 62 63 64 65
 256 121 122 123 124 125 126 127 128 129 256 66 67 68 69 256"
is "wide ids" "pack-rows -q -T 4 -o w.rows wide.tokens; tail -c +57 w.rows | od -An -tu4 -N20 -w20 | tr -s ' '" " 65536 65477 65478 65479 65480"
is "a tokenizer without <|bos|>" "pack-rows -q -T 16 -o n.rows no-bos.tokens; ids n.rows 1 3" " 7 1 2"
says 1 "bad-bos.tokens: document 2 does not begin with <|bos|> (token 256)" "<|bos|> is missed" "pack-rows -T 15 -o few bad-bos.tokens"
is "files = cat = stdin" "pack-rows -q -T 15 -o f1.rows docs.tokens one.tokens docs.tokens; cat docs.tokens one.tokens docs.tokens | pack-rows -q -T 15 -o f2.rows -; cksum <f1.rows" \
    "$(cat docs.tokens one.tokens docs.tokens | pack-rows -q -T 15 -o f3.rows; cksum <f3.rows)"
ok "the same bytes" "cmp f1.rows f2.rows"
is "gzip" "gzip -c docs.tokens | pack-rows -q -T 15 -o g.rows; cksum <g.rows" "$(cksum <a-00000.rows)"
says 1 "other.tokens: made with tokenizer fedcba9876543210, but docs.tokens with 1122334455667788" "another tokenizer" \
    "pack-rows -T 15 -o few docs.tokens other.tokens"
says 1 "made with tokenizer fedcba9876543210" "the same through cat" "cat docs.tokens other.tokens | pack-rows -T 15 -o few"
says 1 "loss masks" "with masks and without" "pack-rows -T 15 -o few docs.tokens chat.tokens"
ok "nothing is left" "gone few"

# ---- a stage that dies
repeat 50 docs.tokens >many.tokens; cat many.tokens docs.tokens >longer.tokens
size=$(wc -c <docs.tokens); bad=0
for k in $(seq 0 5 $((size - 1))) $((size - 1)); do
    head -c "$((50 * size + k))" longer.tokens | pack-rows -q -T 15 -o dead --shard-rows 3 2>/dev/null
    [ $? -eq "$([ "$k" -eq 0 ] && echo 0 || echo 1)" ] || bad=$((bad + 1))
    [ "$k" -eq 0 ] && rm -f dead-*
    gone dead || bad=$((bad + 1))
done
is "a stream cut anywhere is refused and leaves nothing" "echo $bad" 0
mkfifo pipe; exec 3<>pipe                           # opened both ways: does not wait, never ends
pack-rows -q -T 15 -o killed --shard-rows 3 --buffer 4 pipe & pid=$!
cat many.tokens >&3
for i in $(seq 100); do gone killed || break; sleep 0.1; done
kill -TERM $pid; wait $pid 2>/dev/null; echo $? >rc; exec 3>&-
is "SIGTERM" "cat rc" 143
ok "leaves nothing" "gone killed"

# ---- shards
says 0 "out: 125 rows of 16 tokens in 42 shards" "shards of 3 rows" "pack-rows -T 15 -o s --shard-rows 3 many.tokens"
is "their names" "ls s-*" "$(for i in $(seq 0 41); do printf 's-%05d.rows\n' "$i"; done)"
says 0 "full: s-00000.rows to s-00041.rows" "are told" "pack-rows -T 15 -o s --shard-rows 3 many.tokens"
says 0 "full: s.rows" "one file too" "pack-rows -T 15 -o s.rows many.tokens; r=\$?; rm s.rows; exit \$r"
is "and rows" "pack-rows --check s-*.rows | sed 's/.*\"rows\":\([0-9]*\).*/\1/' | sort | uniq -c | tr -s ' '" " 1 2
 41 3"
is "together they are the one shard" "for f in s-*.rows; do ids \$f 3 16; done | sed '/^ 256.*/!d' | head -n 125 | cksum" \
    "$(pack-rows -q -T 15 -o one.rows many.tokens; ids one.rows 125 16 | cksum)"
cksum s-* >sums
ok "the same set again takes its place" "pack-rows -T 15 -o s --shard-rows 3 many.tokens"
is "with the same bytes" "cksum s-*" "$(cat sums)"
says 1 "s: 39 shards of an earlier run" "a smaller set beside a larger one" "pack-rows -T 15 -o s --shard-rows 50 many.tokens"
is "changes nothing" "cksum s-*; ls | grep -c tmp" "$(cat sums; echo 0)"
ok "--force" "pack-rows -T 15 -o s --shard-rows 50 --force many.tokens"
is "removes the rest" "ls s-*" "s-00000.rows
s-00001.rows
s-00002.rows"
ok "other names do not count" "touch s-1.rows s-000010.row s-x-00009.rows ss-00009.rows; pack-rows -T 15 -o s --shard-rows 50 many.tokens"
ok "a prefix in a folder" "mkdir d; pack-rows -T 15 -o d/p many.tokens && pack-rows --check d/p-00000.rows"
says 1 "d/p: 2 shards" "is looked through" "cp d/p-00000.rows d/p-00007.rows; cp d/p-00000.rows d/p-00012.rows; pack-rows -T 15 -o d/p many.tokens"
is "as many shards as descriptors and more" "(ulimit -S -n 20; pack-rows -q -T 15 -o many/s --shard-rows 3 many.tokens; ls many | wc -l)" "$(mkdir many; echo 42)"

# ---- sft
is "whole conversations, padded with <|bos|>" "pack-rows -q -T 63 --sft -o chat.rows chat.tokens; tail -c +57 chat.rows | od -An -v -tu2 -w136 -N272 | tr -s ' ' | cut -d' ' -f2-65" \
"$(echo 256 $(seq 1 39) 256 $(seq 121 139) 256 256 256 256; echo 256 $(seq 61 89) $(yes 256 | head -n 34))"
is "and their masks: 3 of 40, 3 of 20, 4 of padding are 0; 3 of 30, 34 of padding" "tail -c +57 chat.rows | od -An -v -tx1 -w136 -N272 | tr -s ' ' | cut -d' ' -f130-137" \
"f8 ff ff ff ff f8 ff 0f
f8 ff ff 3f 00 00 00 00"
says 0 "out: 2 rows of 64 tokens in 1 shard, 70.31% full" "fill" "pack-rows -T 63 --sft -o c chat.tokens"
says 0 "90 in rows, 0 cropped (0 documents), 0 dropped (0 whole documents), 38 padding" "padding" "pack-rows -T 63 --sft -o c chat.tokens"
says 0 "loss mask 1: 81 tokens in, 81 in rows" "no mask is lost" "pack-rows -T 63 --sft -o c chat.tokens"
says 0 "out: 10 rows of 64 tokens in 1 shard, 100.00% full" "all too long: cut, each once" "pack-rows -T 63 --sft -o c long-chat.tokens"
says 0 "640 in rows, 1678 cropped (10 documents)" "and counted" "pack-rows -T 63 --sft -o c long-chat.tokens"
says 0 "loss mask 1: 2288 tokens in, 610 in rows" "the masks too" "pack-rows -T 63 --sft -o c long-chat.tokens"
says 1 "all 10 conversations are longer than the 64 tokens of a row" "all dropped" "pack-rows -T 63 --sft --long drop -o few long-chat.tokens"
says 0 "669 in rows, 0 cropped (0 documents), 1649 dropped (5 whole documents), 135 padding" "some dropped" \
    "pack-rows -T 200 --sft --long drop -o c long-chat.tokens"
says 0 "3 rows without a single token that counts" "rows that teach nothing are named" "pack-rows -T 2 --sft -o c chat.tokens"
says 1 "docs.tokens: has no loss masks, which --sft needs" "no masks" "pack-rows --sft -T 15 -o few docs.tokens"
says 1 "none.tokens: has no loss masks" "not even an empty stream" "pack-rows --sft -T 15 -o few none.tokens"
says 0 "loss mask 1: 81 tokens in, 55 in rows" "masks go along in pretraining as well" "pack-rows -T 63 -o c chat.tokens"
ok "nothing is left" "gone few"

# ---- --check
is "describes a shard" "pack-rows --check chat.rows" \
    '{"file":"chat.rows","rows":2,"seq_len":63,"vocab":300,"bos":256,"masks":true,"tokenizer":"1122334455667788"}'
is "no <|bos|> is null" "pack-rows --check n.rows" \
    '{"file":"n.rows","rows":1,"seq_len":16,"vocab":300,"bos":null,"masks":false,"tokenizer":"1122334455667788"}'
says 1 "b.rows: rows of 17 tokens, but a-00000.rows has 16" "shards that do not go together" \
    "pack-rows -q -T 16 -o b.rows one.tokens; pack-rows --check a-00000.rows b.rows"
size=$(wc -c <a-00000.rows); bad=0
for k in $(seq 0 3 $((size - 1))) $((size - 1)); do
    { head -c "$k" a-00000.rows; tail -c +$((k + 1)) a-00000.rows | head -c 1 | tr '\000-\377' '\001-\377\000'; tail -c +$((k + 2)) a-00000.rows; } >flip.rows
    pack-rows --check flip.rows >/dev/null 2>&1; [ $? -eq 1 ] || bad=$((bad + 1))
    head -c "$k" a-00000.rows >cut.rows
    pack-rows --check cut.rows >/dev/null 2>&1; [ $? -eq 1 ] || bad=$((bad + 1))
done
is "a changed byte, a cut" "echo $bad" 0
says 1 "No space" "a full disk" "pack-rows --check chat.rows >/dev/full"
finish
