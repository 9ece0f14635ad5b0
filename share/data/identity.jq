# identity.jq -- conversations as bare arrays, [{"role", "content"}, ...] to a line, as rows.
#
# Two messages or more, user and assistant in turn, beginning with the user.
def bad(why): error("row \(input_line_number): " + why);
def message: if type != "object" or (.role | type) != "string" or (.content | type) != "string"
    then bad("a message without a role and a text") else {role, content} end;
inputs | if type != "array" or length < 2 then bad("not an array of two messages or more") else . end
    | map(message)
    | if map(.role) == [range(length) | if . % 2 == 0 then "user" else "assistant" end]
      then {messages: .} else bad("user and assistant do not take turns") end
