# humaneval.jq -- HumanEval's rows {"prompt", "canonical_solution", "entry_point", "test"} to
# conversations: the function's head is asked, the whole function is answered. Meant for evaluation.
def text: if type == "string" then . else error("row \(input_line_number): not a string") end;
inputs | {messages: [{role: "user", content: (.prompt | text)},
                     {role: "assistant", content: (.prompt + "\n" + (.canonical_solution | text))}],
          entry_point: (.entry_point | text), test: (.test | text)}
