# minimind.jq -- minimind's rows to conversations.
#
# {"conversations": [...]}: role, content, reasoning_content, tools and tool_calls of each turn; the
# last two are JSON inside a string, and are parsed. Other members of a row (gt) are kept.
# {"chosen": [...], "rejected": [...]}: both are kept under these names; messages are those of chosen.
# The two must differ in their last message only.
# {"text"} (pretraining) needs no adapter.
def bad(why): error("row \(input_line_number): " + why);
def parsed: if type != "string" then . elif test("^\\s*$") then null
    else . as $s | try fromjson catch bad("JSON inside a string is none: \($s[:60])") end;
def turn: if type != "object" or (.content | type) != "string"
        or (.role | . != "system" and . != "user" and . != "assistant" and . != "tool")
    then bad("a message without a known role and a text") else . end
    | {role, content}
    + (if .reasoning_content then {reasoning_content} else {} end)
    + (.tools | parsed | if . then {tools: .} else {} end)
    + (.tool_calls | parsed | if . then {tool_calls: .} else {} end);
def turns: if type != "array" or length < 1 then bad("no conversation") else map(turn) end;
inputs
| if has("chosen") or has("rejected") then
    {chosen: (.chosen | turns), rejected: (.rejected | turns)} as $both
    | if $both.chosen[:-1] == $both.rejected[:-1] then . else bad("different prompts") end
    | {messages: $both.chosen} + del(.chosen, .rejected) + $both
  else {messages: (.conversations | turns)} + del(.conversations) end
