# arithmetic.jq -- the prompt's first "A op B" (whole numbers; + - * x times plus minus) is worked out, and
# compared with the last number of the completion: 1 if they are equal, else 0; null without a sum.
#   gpt-train --rl PROMPTS.jsonl --reward 'jq -rnf share/reward/arithmetic.jq'

def result:
  first(capture("(?<a>-?[0-9]+) *(?<op>\\+|-|\\*|x|plus|minus|times) *(?<b>-?[0-9]+)")
        | (.a | tonumber) as $a | (.b | tonumber) as $b
        | if .op == "+" or .op == "plus" then $a + $b
          elif .op == "-" or .op == "minus" then $a - $b
          else $a * $b end) // null;
def last_number: [scan("-?[0-9]+(?:,[0-9]{3})*(?:\\.[0-9]+)?")] | last // "" | gsub(","; "") | tonumber? // null;

inputs
| (.prompt | result) as $want
| if $want == null then "null" elif (.completion | last_number) == $want then 1 else 0 end
