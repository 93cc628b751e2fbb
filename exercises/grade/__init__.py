"""Grades a folder of submissions that nobody trusts: ``python -m exercises.grade submissions/ --out grades/``.

A learner's code runs in a box (`boxes`, in the `room`; `inside` is what is in it) that knows no test, no expected value
and no secret. Arrays and plain values come out of it (`inside/wire`), and are judged outside (`submission`, `answer`),
by the same checker that learners call. `run` does a whole folder, and `report` writes what people read.

An assignment's folder (`term`, `assignment`) knows a class besides: whose a file is and when it came (`roster`,
`gradebook`), what people gave (`marks`), what a regrade changes (`difference`), what went wrong (`class_report`).
"""

CALL = "python -m exercises.grade"  # of which messages say what to do next
