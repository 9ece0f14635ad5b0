# exact.jq -- 1 if the completion is the reference's answer, white space at both ends left out; else 0.
# The answer is the row's "answer", or the text of the last message of its assistant's; null without one.
#   gpt-train --rl PROMPTS.jsonl --reward 'jq -rnf share/reward/exact.jq'

def text: if type == "array" then map(select(.type == "text").text) | join("") else . end;
def trim: sub("^\\s+"; "") | sub("\\s+$"; "");
def answer: .answer // ((.messages // []) | map(select(.role == "assistant")) | last | .content);

inputs
| (.reference | answer) as $want
| if $want == null then "null"
  elif (.completion | trim) == ($want | text | tostring | trim) then 1 else 0 end
