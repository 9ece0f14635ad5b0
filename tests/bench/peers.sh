#!/bin/sh
# peers.sh [CORPORA [STRINGS [SEED]]] -- are we equal to rustbpe and tiktoken (pip install rustbpe tiktoken)?
# CORPORA (2000) tiny random corpora full of ties, trained by both; then STRINGS (1000000) random strings
# over what is easily done wrong (contractions, kinds of white space and digits, marks, U+017F, U+212A,
# letters new in Unicode 16, bytes of a character apart) and any code points, encoded by both. bpe-train
# and tok-encode must be on PATH. Exits 1 at the first difference, and says where.
corpora=${1:-2000}; strings=${2:-1000000}; seed=${3:-1}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
python3 - "$dir" "$corpora" "$strings" "$seed" <<'END'
import base64, json, random, subprocess, sys
import rustbpe, tiktoken
dir, corpora, strings, seed = sys.argv[1], *map(int, sys.argv[2:])
random.seed(seed)
pattern = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}"
           r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")

def write(path, texts):
    with open(path, "w", encoding="utf-8") as f:
        for t in texts: f.write(json.dumps({"text": t}, ensure_ascii=random.random() < .5) + "\n")

# ---- training
ids = {bytes([i]): i for i in range(256)}
for k in range(corpora):
    letters = "ab" if k % 3 == 0 else "abc \n'" if k % 3 == 1 else "aé日 1."
    texts = ["".join(random.choice(letters) for _ in range(random.randint(0, 40)))
             for _ in range(random.randint(1, 6))]
    merges = random.randint(1, 40)
    if not any(texts): continue                 # no text is an error here
    write(f"{dir}/c.jsonl", texts)
    subprocess.run(["bpe-train", "-q", "-j", str(1 + k % 3), "-v", str(256 + merges + 9), "--merges", f"{dir}/m",
                    "-o", f"{dir}/c.tok", f"{dir}/c.jsonl"], check=True, stderr=subprocess.DEVNULL)
    token = [bytes([i]) for i in range(256)]
    for line in open(f"{dir}/m"):
        a, b, _ = map(int, line.split())
        token.append(token[a] + token[b])
    peer = rustbpe.Tokenizer()
    peer.train_from_iterator(iter(texts), 256 + merges, pattern=pattern)
    theirs = [bytes(b) for b, _ in sorted(peer.get_mergeable_ranks(), key=lambda x: x[1])]
    if token != theirs:
        sys.exit(f"seed {seed}, corpus {k}: {texts!r}: {token[256:]} here, {theirs[256:]} there")
print(f"{corpora} corpora: the same merges")

# ---- encoding
odd = ("abcdstmlvreSDTLVE" "''''\u2019" "0123456789\u0660\u00b2\u2167\u3007\U0001d7ce" "      \n\n\r\t\v\f"
       "\u00a0\u0085\u1680\u2003\u2028\u202f\u3000" "éßſ\u212aǅʰªµ" "\u0301\u0900\u0e31\u20dd" "日本語한글ひカ々"
       "!?.,-_()[]{}<>|#$%^&*@/\\\"`~\u2014\u2026\u20ac" "😀\U0001f1e9\u200d\ufe0f\ufeff\ufffd"
       "\U00010d4a\U00010d70\U0001e5d0\ua7cb\ua7da\u1c89" "\U0010ffff\U000e0001\x00\x01\x7f")
def any_char():
    while True:
        c = random.randrange(0x110000) if random.random() < .3 else random.randrange(0x3100)
        if not 0xd800 <= c < 0xe000: return chr(c)
def string():
    n = random.randint(0, 24)
    return "".join(random.choice(odd) if random.random() < .9 else any_char() for _ in range(n))
texts = [string() for _ in range(strings)]
write(f"{dir}/s.jsonl", texts)
subprocess.run(["bpe-train", "-q", "-v", "8192", "-o", f"{dir}/s.tok", f"{dir}/s.jsonl"], check=True)
subprocess.run(["tok-encode", "-q", "--convert", f"{dir}/s.tok", f"{dir}/s.tiktoken"], check=True,
               stderr=subprocess.DEVNULL)
ranks = {base64.b64decode(t): int(r) for t, r in (l.split() for l in open(f"{dir}/s.tiktoken", "rb"))}
enc = tiktoken.Encoding("peer", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
with open(f"{dir}/ids", "w") as f:
    subprocess.run(["tok-encode", "-q", "--no-bos", "--ids", "-t", f"{dir}/s.tok", f"{dir}/s.jsonl"], check=True, stdout=f)
for t, line in zip(texts, open(f"{dir}/ids"), strict=True):
    ours, theirs = list(map(int, line.split())), enc.encode_ordinary(t)
    if ours != theirs: sys.exit(f"seed {seed}: {t!r}: {ours} here, {theirs} there")
print(f"{strings} strings: the same ids")
END
