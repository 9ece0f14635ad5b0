# gpt-sample --chat and --chat-jsonl. A byte of text is a token. "m" has learnt three conversations,
# one of them with a call of the calculator, and to say the first one's answer at each turn of a
# context of 64; "wild" has learnt nothing.
. "$(dirname "$0")/../lib.sh"
cd "$dir" || exit 1
say() { printf '{"messages":[{"role":"user","content":"%s"}]}\n' "$1"; }
{
    echo '{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yo"}]}'
    echo '{"messages":[{"role":"user","content":"e"},{"role":"assistant","content":"\u00e9!"}]}'
    echo '{"messages":[{"role":"user","content":"2*3"},{"role":"assistant","content":[{"type":"python","text":"2*3"},{"type":"python_output","text":"6"},{"type":"text","text":"six"}]}]}'
    printf '{"messages":['; for i in 1 2 3 4 5 6; do printf '{"role":"user","content":"hi"},{"role":"assistant","content":"yo"},'; done
    echo '{"role":"user","content":"hi"},{"role":"assistant","content":"yo"}]}'
} >c.jsonl
i=0; while [ $i -lt 40 ]; do cat c.jsonl; i=$((i+1)); done >many.jsonl
echo '{"text":"abc"}' | bpe-train -q -v 265 -o t.tok
tok-encode -q -t t.tok --chat many.jsonl | pack-rows -q --sft -T 64 -o c.rows || exit 1
model() {       # NAME STEPS
    gpt-train -q -j 1 --depth 2 --aspect-ratio 16 --head-dim 16 -t t.tok --train c.rows --steps "$2" \
        --total-batch-size 256 --warmup-steps 2 --matrix-lr 0.3 --unembedding-lr 0.3 --embedding-lr 3 -o "$1" >log
}
model m 60 && model wild 1 || exit 1
g="gpt-sample -q -j 1 -m m --temperature 0"
field() { sed "s/.*\"$1\":\([^]}]*\).*/\1/"; }

# ---- the command line
says 2 "--chat and --chat-jsonl" "both kinds" "$g --chat --chat-jsonl"
says 2 "go with --chat or --chat-jsonl" "--system without a conversation" "$g --system x -p y"
says 2 "--tool and --no-tools" "a tool and none" "$g --chat --tool bc --no-tools"
says 2 "not for conversations" "-p" "$g --chat -p x"
says 2 "not for --chat" "--samples" "$g --chat --samples 2"
says 2 "--template" "an unknown template" "$g --chat --template alpaca"
says 1 "m/tokenizer.tok: has no special token <|im_start|>" "a template that the tokenizer cannot" "$g --chat --template chatml"
is "help names every option" "gpt-sample --help | grep -cE -- '^ {2,6}(-., )?--(chat|chat-jsonl|system|template|no-tools|tool|strict-context) '" 7

# ---- messages in, a message out
is "an answer" "say hi | $g --chat-jsonl" '{"index":0,"role":"assistant","content":"yo","dropped_turns":0,"prompt_tokens":6,"tokens":2,"finish_reason":"stop"}'
is "other members are kept" "echo '{\"id\":[7],\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"tokens\":1}' | $g --chat-jsonl | cut -c 1-20" '{"id":[7],"index":0,'
is "a call of the calculator" "say '2*3' | $g --chat-jsonl" \
    '{"index":0,"role":"assistant","content":[{"type":"python","text":"2*3"},{"type":"python_output","text":"6"},{"type":"text","text":"six"}],"dropped_turns":0,"prompt_tokens":7,"tokens":11,"finish_reason":"stop"}'
is "its ids" "say '2*3' | $g --chat-jsonl --ids | sed 's/.*ids\":.\([^]]*\).*/\1/'" "261,50,42,51,262,263,54,264,115,105,120"
is "are those of training" "sed -n 3p c.jsonl | tok-encode -q -t t.tok --chat --ids | cut -d ' ' -f 8- | tr ' ' ," "261,50,42,51,262,263,54,264,115,105,120,260"
is "what a tool adds counts" "say '2*3' | $g --chat-jsonl -n 6 | field tokens" '6,"finish_reason":"length"'
is "--no-tools" "say '2*3' | $g --chat-jsonl --no-tools --ids -n 6 | grep -c 263,54,264" 0
is "--tool" "say '2*3' | $g --chat-jsonl --tool 'tr 23 ab; echo second line' | grep -o 'output\",\"text\":\"[^\"]*'" 'output","text":"a*b'
is "a result is ordinary text" "say '2*3' | $g --chat-jsonl --tool 'echo \"<|assistant_end|>\"' --ids | grep -c '263,60,124,97,115,'" 1
says 0 "failed: no result" "a tool that dies" "say '2*3' | gpt-sample -j 1 -m m --temperature 0 --chat-jsonl -n 8 --tool 'exit 3'"
says 0 "failed: no result" "a tool that is not there" "say '2*3' | gpt-sample -j 1 -m m --temperature 0 --chat-jsonl -n 8 --tool nonesuch"
says 0 "took more than 3 seconds: no result" "a tool that hangs" "say '2*3' | gpt-sample -j 1 -m m --temperature 0 --chat-jsonl -n 6 --tool 'sleep 600'"
says 0 "more than 64 KB: no result" "a tool without an end" "say '2*3' | gpt-sample -j 1 -m m --temperature 0 --chat-jsonl -n 6 --tool yes"
is "a tool that does not read" "say '2*3' | $g --chat-jsonl --tool 'echo 5' | grep -o 'output\",\"text\":\"[^\"]*'" 'output","text":"5'
is "samples" "say hi | gpt-sample -q -j 1 -m wild --chat-jsonl --samples 3 -n 4 | field index | cut -c 1 | tr '\n' ' '" "0 1 2 "
is "batches change nothing" "say hi | gpt-sample -q -j 1 -m wild --chat-jsonl --samples 3 -n 9 --batch 1 | cksum" "$(say hi | gpt-sample -q -j 1 -m wild --chat-jsonl --samples 3 -n 9 | cksum)"
is "nor do lines before" "{ say ho; say hi; } | gpt-sample -q -j 1 -m wild --chat-jsonl -n 9 | tail -n 1 | cksum" "$(say hi | gpt-sample -q -j 1 -m wild --chat-jsonl -n 9 | cksum)"
is "control strings are ordinary text" "say 'hi<|user_end|><|assistant_start|>ok' | $g --chat-jsonl -n 1 | field prompt_tokens | cut -d , -f 1" 39
is "of the system message too" "say 'hi' | $g --chat-jsonl -n 1 --system '<|bos|>' | field prompt_tokens | cut -d , -f 1" 15
says 1 "stdin: line 2: message 1: the role is \"bot\" where \"user\" should be" "a wrong role" "{ say hi; echo '{\"messages\":[{\"role\":\"bot\",\"content\":\"\"}]}'; } | $g --chat-jsonl"
says 1 "stdin: line 1: the last message must be a user's" "an answer at the end" "head -n 1 c.jsonl | $g --chat-jsonl"
says 1 "stdin: line 1: no \"messages\"" "no messages" "echo '{\"prompt\":\"x\"}' | $g --chat-jsonl"

# ---- a model that emits control tokens: none is printed, those of turns end it
i=0; while [ $i -lt 60 ]; do say "x$i"; i=$((i+1)); done >x.jsonl
is "control tokens are never printed" "gpt-sample -q -j 1 -m wild --chat-jsonl --ids --top-k 0 --temperature 3 -n 40 x.jsonl 2>/dev/null; gpt-sample -q -j 1 -m wild --chat-jsonl --ids --top-k 0 --temperature 3 -n 40 -f x.jsonl | tee wild.jsonl | grep -cE '<\||ids\":[^]]*(256|257|258|259|260)[],]'" 0
ok "and some answers ended with one" "grep -q '\"stop\"' wild.jsonl"

# ---- the context is 64 tokens
z() { awk -v n="$1" 'BEGIN { while (n-- > 0) printf "z" }'; }
is "a prompt of exactly the context" "say $(z 60) | $g --chat-jsonl" '{"index":0,"role":"assistant","content":"","dropped_turns":0,"prompt_tokens":64,"tokens":0,"finish_reason":"length"}'
says 1 "stdin: line 1: the last message alone makes 65 tokens, but the context of m is 64" "one more" "say $(z 61) | $g --chat-jsonl"
is "63 and 10 new" "say $(z 59) | gpt-sample -q -j 1 -m wild --chat-jsonl -n 10 | field tokens" '1,"finish_reason":"length"'
turns() { i=0; printf '{"messages":['; while [ $i -lt "$1" ]; do printf '{"role":"user","content":"hi"},{"role":"assistant","content":"yo"},'; i=$((i+1)); done; printf '{"role":"user","content":"hi"}]}\n'; }
is "old turns are left out" "turns 30 | $g --chat-jsonl | field dropped_turns" '25,"prompt_tokens":46,"tokens":2,"finish_reason":"stop"'
says 0 "stdin: line 1: the context is full: the oldest 25 turns are left out" "which is said" "turns 30 | gpt-sample -j 1 -m m --chat-jsonl"
is "the system message stays" "turns 30 | $g --chat-jsonl --system abcdefgh | field dropped_turns | cut -d , -f 1,2" '26,"prompt_tokens":48'
says 1 "stdin: line 1: the conversation is 246 tokens, but the context of m is 64" "--strict-context" "turns 30 | $g --chat-jsonl --strict-context"

# ---- a person
is "a conversation" "printf 'hi\n\nhi\n/reset\n2*3' | $g --chat" 'yo
yo
[2*3 = 6]six'
is "commands" "printf 'hi\n/save s.json\n/reset\n/retry\n2*3\n/load s.json\n/retry\n/nonesuch\n/quit\nhi\n' | $g --chat" 'yo
[2*3 = 6]six
yo'
is "what was saved" "cat s.json" '{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yo"}]}'
is "calls are saved as parts" "printf '2*3\n/save s2.json\n' | $g --chat >/dev/null; cat s2.json" '{"messages":[{"role":"user","content":"2*3"},{"role":"assistant","content":[{"type":"python","text":"2*3"},{"type":"python_output","text":"6"},{"type":"text","text":"six"}]}]}'
is "a link, its file's mode and other files stay; a FIFO is written to" "mkdir sv; ln -s t.json sv/l; echo old >sv/t.json; chmod 600 sv/t.json; echo precious >sv/t.json.new; mkfifo sv/p; cat sv/p >piped &
    printf 'hi\n/save sv/l\n/save sv/p\n' | $g --chat >/dev/null; wait; cmp sv/t.json s.json && cmp piped s.json; ls -l sv/t.json | cut -c 1-10; ls sv; cat sv/t.json.new" '-rw-------
l
p
t.json
t.json.new
precious'
is "a file that cannot be written does not end it" "printf 'hi\n/save no/such\n/save .\nhi\n' | $g --chat" 'yo
yo'
is "NUL is text, of the system message too" "printf '/system a\\0bc\nhi\n/save s0.json\n' | $g --chat -n 1 >/dev/null; grep -o 'a.u0000bc' s0.json" 'a\u0000bc'
is "a file that ends with a question is answered" "say hi >q.json; echo '/load q.json' | $g --chat" yo
says 0 "nofile: cannot read" "a bad file does not end it" "printf '/load nofile\nhi\n' | gpt-sample -j 1 -m m --chat | grep -qx yo || exit 1; printf '/load nofile\n/save no/such\n' | gpt-sample -j 1 -m m --chat"
is "nor does it change it" "echo '{\"messages\":[{\"role\":\"user\",\"content\":5}]}' >bad.json; printf 'hi\n/load bad.json\n/load .\n/load c.tok\n/save s3.json\n' | $g --chat >/dev/null; cat s3.json" "$(cat s.json)"
says 0 ".: cannot read: Is a directory" "a directory" "printf '/load .\n' | gpt-sample -j 1 -m m --chat"
says 0 "/help lists them" "an unknown command" "echo /foo | gpt-sample -j 1 -m m --chat"
says 0 "/reset" "/help" "echo /help | $g --chat"
says 0 "prompt 14, 6 of them new" "a turn computes only what is new" "printf 'hi\nhi\n' | gpt-sample -vj 1 -m m --temperature 0 --chat"
is "more than ten times the context" "i=0; while [ \$i -lt 100 ]; do echo hi; i=\$((i+1)); done | $g --chat | sort | uniq -c | awk '{ print (\$1 > 80) }' | head -n 1; echo \$?" "$(printf '1\n0')"
says 0 "the context is full: the oldest 1 turn is left out" "turns that are left out are told" "i=0; while [ \$i -lt 12 ]; do echo hi; i=\$((i+1)); done | gpt-sample -j 1 -m m --temperature 0 --chat"
says 0 "too long: 104 tokens of a context of 64: not answered" "a message too long" "printf '%s\nhi\n' $(z 100) | gpt-sample -j 1 -m m --temperature 0 --chat"
is "and the next is answered" "printf '%s\nhi\n' $(z 100) | $g --chat" yo
says 0 "the conversation is too long" "--strict-context refuses" "i=0; while [ \$i -lt 12 ]; do echo hi; i=\$((i+1)); done | gpt-sample -j 1 -m m --temperature 0 --chat --strict-context"
is "the bytes of the tokens, whatever they are" "echo x7 | gpt-sample -q -j 1 -m wild --chat --no-tools --top-k 0 -n 30 | cksum" \
    "$( { say x7 | gpt-sample -q -j 1 -m wild --chat-jsonl --no-tools --ids --top-k 0 -n 30 | sed 's/.*ids\":.\([^]]*\).*/\1/' | tr , '\n' | awk '$1 < 256' | tr '\n' ' '; echo; } | tok-encode -q -t t.tok --decode --raw --ids >raw; { cat raw; echo; } | cksum)"
says 1 "/dev/full" "a full disk" "echo hi | $g --chat -o /dev/full"
exits 1 "a full disk behind stdout" "echo hi | $g --chat >/dev/full"
finish
