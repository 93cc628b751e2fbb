"""What is inside a box, and nothing else of the grader: the warm parent, the reader and the runner."""
