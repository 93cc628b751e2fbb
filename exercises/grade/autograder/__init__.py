"""What goes into Gradescope's container beside the course: its setup, its start, and what grades there."""
