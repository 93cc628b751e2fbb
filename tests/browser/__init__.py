"""Tests in a real browser: on the built book, in JupyterLab and in an old notebook."""
