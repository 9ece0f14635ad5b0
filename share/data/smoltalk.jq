# smoltalk.jq -- SmolTalk's rows {"messages", "source"} to conversations, each one checked.
#
# A system message may come first; then user and assistant take turns, at least once each. Of a
# message role and content are kept, of a row everything else.
def bad(why): error("row \(input_line_number): " + why);
def message: if type != "object" or (.role | type) != "string" or (.content | type) != "string"
    then bad("a message without a role and a text") else {role, content} end;
def turns: if .[0].role == "system" then .[1:] else . end | map(.role)
    | length >= 2 and . == [range(length) | if . % 2 == 0 then "user" else "assistant" end];
inputs | if (.messages | type) != "array" then bad("no messages") else . end
    | {messages: (.messages | map(message))} + del(.messages)
    | if .messages | turns then . else bad("user and assistant do not take turns") end
