# mmlu.jq -- MMLU's rows {"question", "choices", "answer", "subject"} to conversations.
#
# Four choices; the answer is the number of one, from 0. subject is kept (in auxiliary_train it is
# empty), and letters tells what may be answered.
def bad(why): error("row \(input_line_number): " + why);
def text: if type == "string" then . else bad("not a string") end;
["A", "B", "C", "D"] as $letters
| inputs
| if (.choices | type) != "array" or (.choices | length) != 4 then bad("not four choices") else . end
| .answer as $a
| if [range(4)] | index([$a]) | not then bad("the answer is none of the four") else . end
| {messages: [
    {role: "user", content: ("Multiple Choice question: " + (.question | text) + "\n"
        + ([.choices, $letters] | transpose | map("- \(.[0] | text)=\(.[1])\n") | add)
        + "\nRespond only with the letter of the correct answer.")},
    {role: "assistant", content: $letters[$a]}], subject, $letters}
