# Parquet files made by pyarrow 25 from the rows beside them: data-fetch gives these rows.
. "$(dirname "$0")/../lib.sh"
in=$top/tests/parquet
shared=$top/../shared/data
cd "$dir" || exit 1

built() { data-fetch --version | grep -q "$1"; }

for f in "$in"/flat.*.parquet "$in"/nested.*.parquet "$in"/time.parquet "$in"/map.parquet "$in"/twice.parquet; do
    name=${f##*/}; rows=$in/${name%%.*}.jsonl
    case $name in flat.fallback.*) rows=$in/flat.fallback.jsonl;; esac
    case $name in
    *zstd*|*nodict*) built zstd || { skip "$name" "built without zstd"; continue; };;
    *snappy*) built snappy || { skip "$name" "built without snappy"; continue; };;
    esac
    ok "rows of $name" "data-fetch -q '$f' | cmp - '$rows'"
done

f=$in/flat.none.v1.parquet
is "one column" "data-fetch -q --column k '$f' | head -n 1" '{"k":-30}'
is "columns in the schema's order" "data-fetch -q --column u --column k '$f' | head -n 1" '{"k":-30,"u":4294967295}'
is "a range of rows" "data-fetch -q --range 58: '$f'" "$(tail -n 2 "$in/flat.jsonl")"
is "a range in parts" "data-fetch -q --range 50%:52% '$f'" "$(sed -n 31p "$in/flat.jsonl")"
is "a number of rows" "data-fetch -q --max-docs 2 '$f'" "$(head -n 2 "$in/flat.jsonl")"
ok "what a file holds" "data-fetch --inspect '$f' | grep -q '^row groups 3' && data-fetch --inspect '$f' | grep -q '^  required INT32 \"k\"'"
says 1 "no column 'nix'" "an unknown column" "data-fetch --column nix '$f'"
says 2 "one file" "--inspect and a file" "data-fetch --inspect '$f' '$f'"
says 1 "stdin: Parquet" "not from a pipe" "data-fetch --format parquet <'$f'"
says 1 "regular file" "not from a device" "data-fetch --format parquet /dev/zero"
says 1 "not a Parquet file" "text" "data-fetch --format parquet '$in/flat.jsonl'"
says 1 "x, before byte 101: bytes that are not UTF-8" "bytes that are no text" "data-fetch '$in/bytes.parquet'"
is "they may be left out" "data-fetch -q --column ok '$in/bytes.parquet'" '{"ok":"yes"}'
says 1 "not finite" "NaN" "data-fetch '$in/nan.parquet'"
says 1 "column x, before byte 39: DELTA_BINARY_PACKED" "an encoding" "data-fetch '$in/delta.parquet'"
says 1 "LZ4_RAW: not supported" "a codec" "data-fetch '$in/lz4.parquet'"
says 1 "DECIMAL, which is not supported" "a type" "data-fetch '$in/decimal.parquet'"
says 1 'column e\u001b[2J\n\"q\", before' "control characters of a name stay out of messages" "data-fetch '$in/name.parquet'"
is "and out of what is told of a file" "data-fetch --inspect '$in/name.parquet' | grep -c '^  e.u001b.2J.n.\"q.\" values 1 '" 1
says 1 "a row of more than 48 MB" "20,000,000 empty lists in a row of a small file" "data-fetch '$in/lists.parquet'"

says 1 "maps have more than 1048576 pairs" "a map of a million pairs in a small file" "data-fetch '$in/pairs.parquet'"

# ---- damage: refused, and nothing under the name of the output
size=$(wc -c <"$f")
for k in 0 3 11 100 1000 $((size - 9)) $((size - 1)); do
    head -c "$k" "$f" >cut.parquet
    exits 1 "cut after $k bytes" "data-fetch --format parquet -o out cut.parquet; r=\$?; [ ! -e out ] && exit \$r"
done
patch() { cp "$1" bad.parquet; printf "$3" | dd of=bad.parquet bs=1 seek="$2" conv=notrunc 2>/dev/null; }
patch "$f" 120 '\377'
says 1 "its checksum is wrong" "a byte changed" "data-fetch bad.parquet"
patch "$f" $((size - 8)) '\377\377\377\377'
says 1 "damaged Parquet file: a footer of 4294967295 bytes" "a footer longer than the file" "data-fetch bad.parquet"
patch "$f" $((size - 4)) 'PARE'
says 1 "encrypted" "an encrypted footer" "data-fetch bad.parquet"
# every byte of a small file changed in turn: rows or a message, never a signal
small=$in/map.parquet; bytes=$(wc -c <"$small"); k=0; worst=0
while [ $k -lt "$bytes" ]; do
    for v in '\000' '\177' '\377'; do
        patch "$small" $k "$v"
        data-fetch -q --format parquet bad.parquet >/dev/null 2>&1
        r=$?; [ $r -le 1 ] || worst=$r
    done
    k=$((k + 7))
done
is "no damage ends it by a signal" "echo $worst" 0

# ---- files of others, where they are
if [ -d "$shared/parquet-testing" ]; then
    while IFS="$(printf '\t')" read -r name verdict rows why; do
        case $name in \#*|'') continue;; esac
        p=$shared/parquet-testing/$name.parquet e=$shared/parquet-testing/expect/${name##*/}.jsonl
        data-fetch -q --format parquet "$p" >out 2>err; r=$?
        if [ $r -eq 0 ] && [ -f "$e" ]; then
            jq -cS . out >a; jq -cS . "$e" >b
            ok "$name: equal rows" "cmp a b"
            continue
        fi
        case $verdict in
        read|v2)
            case $name in
            *alltypes*) says 1 "timestamp_col, before byte" "$name: INT96 by name" "cat err >&2; exit $r"
                ok "$name: the rest" "data-fetch -q --column id --column string_col --column double_col '$p' | wc -l | grep -qx $rows";;
            *binary_truncated*) says 1 "not UTF-8" "$name" "cat err >&2; exit $r"
                is "$name: text" "data-fetch -q --column utf8_full_truncation '$p' | wc -l" "$rows";;
            *) is "$name: rows" "cat out | wc -l" "$rows";;
            esac;;
        refuse) exits "$r" "$name: refused or right ($why)" "[ $r -eq 0 ] && [ \$(wc -l <out) -eq $rows ] || { [ $r -eq 1 ] && grep -q 'not supported' err && exit 1; }";;
        corrupt) exits 1 "$name: damaged" "exit $r";;
        lenient) ok "$name: no crash" "[ $r -le 1 ]";;
        esac
    done <"$shared/parquet-testing/expect.tsv"
    for p in "$shared"/parquet-shapes/*.parquet; do
        name=${p##*/}
        case $name in *v2-delta*) says 1 "DELTA_LENGTH_BYTE_ARRAY" "$name" "data-fetch '$p'"; continue;; esac
        data-fetch -q "$p" | jq -cS . >a; jq -cS . "$shared/parquet-shapes/${name%%.*}.jsonl" >b
        ok "$name" "cmp a b"
    done
else
    skip "files of parquet-testing" "not here"
fi
finish
