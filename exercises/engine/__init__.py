"""The engine behind `check`: calls an answer, looks at what it did, says what is wrong, and keeps the points."""
