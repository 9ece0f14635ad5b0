# gsm8k.jq -- rows {"question", "answer"} of GSM8K to conversations, the calculator's calls as parts.
#
#     jq -nc -f share/data/gsm8k.jq train.jsonl > gsm8k.jsonl
#
# An answer has its calls as <<48/2=24>>: what stands before the last = is what the calculator is
# asked, and what stands after it the result, which the answer repeats in words. Texts between two
# calls are parts too when they are empty. "#### 72" stays in the last text.
def whole: if type == "string" then . else error("row \(input_line_number): not a string") end;
def call: .[2:-2] / "=" | if length > 1 then [(.[:-1] | join("=")), .[-1]] else [.[0], ""] end
    | {type: "python", text: .[0]}, {type: "python_output", text: .[1]};
def parts: [match("<<[^>]+>>"; "g").string] as $calls | [splits("<<[^>]+>>")]
    | [range(length) as $i | {type: "text", text: .[$i]}, ($calls[$i] // empty | call)];
inputs | {messages: [{role: "user", content: (.question | whole)},
                     {role: "assistant", content: (.answer | whole | parts)}]}
