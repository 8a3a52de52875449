"""The only doors to the outside: one foreign interface each, told in our words.

What belongs here: calls, translation of values and of errors. What must not: a
decision, a retry loop, a word about what the answer is for.
"""
