"""A CSV file of somebody else's: cells can be read and changed one by one, and all else stays byte for byte."""

import codecs
import re
from pathlib import Path

from exercises.grade.run import Refusal

_SEPARATORS = ",;\t"


class Table:
    """The cells of a CSV text as they are written, quotes and all.

    Python's `csv` reads a file well and writes it its own way. A platform compares what comes back with what it
    gave out, so what is not ours to change is kept as it came: byte order mark, separator, quotes and ends of lines.

    Parameters
    ----------
    text : str, with a byte order mark in front if the file had one
    """

    def __init__(self, text):
        self.mark, text = ("\ufeff", text[1:]) if text.startswith("\ufeff") else ("", text)
        excel = re.match(r"sep=(.)\r?\n", text)  # a line that only Excel knows: it is used, and left out
        if excel:
            text = text[excel.end() :]
        header = re.sub(r'"[^"]*"', "", text[: re.search(r"[\r\n]|\Z", text).start()])
        self.separator = excel[1] if excel else max(_SEPARATORS, key=header.count)
        self._cells, self._ends = [], []
        self._parse(text)

    def _parse(self, text):
        mark = re.escape(self.separator)
        pattern = re.compile(rf'("[^"]*(?:""[^"]*)*"[^{mark}\r\n]*|[^{mark}\r\n]*)({mark}|\r\n|\n|\r|\Z)')
        row, at = [], 0
        while at < len(text) or row:
            found = pattern.match(text, at)
            at = found.end()
            row.append(found[1])
            if found[2] != self.separator:
                self._cells.append(row)
                self._ends.append(found[2])
                row = []

    def __len__(self):
        return len(self._cells)

    @property
    def header(self):
        """The first row's texts, without spaces around them; [] if there is none."""
        return [text.strip() for text in self.row(0)] if self._cells else []

    def row(self, number):
        """The texts of a row, as many as the header has."""
        width = len(self._cells[0])
        texts = [_read(raw) for raw in self._cells[number]]
        return texts + [""] * (width - len(texts))

    def blank(self, number):
        """Is there nothing in this row?"""
        return not any(text.strip() for text in self.row(number))

    def set(self, number, column, text):
        """Change one cell."""
        row = self._cells[number]
        row += [""] * (column + 1 - len(row))
        row[column] = self._written(text)

    def append(self, texts):
        """Add a row at the end."""
        end = next((end for end in self._ends if end), "\n")
        if self._ends and not self._ends[-1]:
            self._ends[-1] = end
        self._cells.append([self._written(text) for text in texts])
        self._ends.append(end)

    def text(self):
        """The whole file."""
        rows = (self.separator.join(row) + end for row, end in zip(self._cells, self._ends))
        return self.mark + "".join(rows)

    def _written(self, text):
        if text != text.strip() or any(c in text for c in (self.separator, '"', "\r", "\n")):
            return '"' + text.replace('"', '""') + '"'
        return text


def _read(raw):
    return raw[1:].removesuffix('"').replace('""', '"') if raw.startswith('"') else raw


def read(path):
    """The Table in a file; Refusal if it cannot be read, is empty, or is no UTF-8."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror}") from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        what = "UTF-16" if utf16 else "no UTF-8"
        raise Refusal(f"{path}: the file is {what}; download it again, or save it as CSV UTF-8") from None
    if "\0" in text:
        raise Refusal(f"{path}: this is no CSV file; in a spreadsheet, save it as CSV UTF-8")
    table = Table(text)
    if not table.header or table.blank(0):
        raise Refusal(f"{path}: the file is empty; expected is a table with a row of headings")
    return table
