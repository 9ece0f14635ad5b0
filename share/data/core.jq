# core.jq -- rows of the CORE tasks, checked, with the name of their task, which is their file's.
#
# Multiple choice {"query", "choices", "gold"}, schema {"context_options", "continuation", "gold"}, and
# language modelling {"context", "continuation"}; gold is the number of a choice, from 0. Other members
# are kept.
def bad(why): error("row \(input_line_number): " + why);
def text: type == "string";
def choices: type == "array" and length > 1 and all(.[]; text);
def gold($n): type == "number" and . == floor and . >= 0 and . < $n;
($ARGS.named.file // "" | [scan("[^/:]+")] | last // "" | sub("\\.jsonl(\\.gz)?$"; "")) as $task
| inputs
| if type != "object" then bad("not an object")
  elif has("choices") then
    if (.query | text) and (.choices | choices) and ((.choices | length) as $n | .gold | gold($n)) then .
    else bad("not a query, its choices and the number of one") end
  elif has("context_options") then
    if (.context_options | choices) and (.continuation | text)
        and ((.context_options | length) as $n | .gold | gold($n)) then .
    else bad("not contexts, a continuation and the number of a context") end
  elif (.context | text) and (.continuation | text) then .
  else bad("neither choices nor a context and its continuation") end
| {task: $task} + .
