# arc.jq -- ARC's rows {"id", "question", "choices": {"text", "label"}, "answerKey"} to conversations.
#
# The labels are the row's own (A to D, 1 to 4, three to five of them); letters keeps them.
def bad(why): error("row \(input_line_number): " + why);
def text: if type == "string" then . else bad("not a string") end;
def strings: type == "array" and all(.[]; type == "string");
inputs
| if (.choices | type) != "object" or (.choices.text | strings and length > 0 | not)
    or (.choices.label | strings | not) or (.choices.text | length) != (.choices.label | length)
  then bad("choices without a label each") else . end
| .answerKey as $a
| if any(.choices.label[]; . == $a) then . else bad("answerKey is none of the labels") end
| {messages: [
    {role: "user", content: ("Multiple Choice question: " + (.question | text) + "\n"
        + ([.choices.text, .choices.label] | transpose | map("- \(.[0])=\(.[1])\n") | add)
        + "\nRespond only with the letter of the correct answer.")},
    {role: "assistant", content: $a}], letters: .choices.label}
