# gsm8k.jq -- 1 if the number after the completion's first #### is that of the reference's answer,
# commas left out; else 0. null if the reference has none: then nothing can be judged.
#   gpt-train --rl PROMPTS.jsonl --reward 'jq -rnf share/reward/gsm8k.jq'

def text: if type == "array" then map(select(.type == "text").text) | join("") else . end;
def number: first(capture("#### (?<n>-?[0-9.,]+)").n | gsub(","; "")) // null;

inputs
| (.reference.messages | map(select(.role == "assistant")) | last | .content // "" | text | number) as $want
| if $want == null then "null" elif (.completion | number) == $want then 1 else 0 end
