"""Turn a chapter's MyST Markdown into the plain Markdown that Colab and JupyterLab show.

Directives and roles the book may use and this file does not know are an error, so that none reaches a reader raw.
Numbers belong to the built book; here equations, figures and exercises are called by the name in their label:
`eq-rmsnorm` is (rmsnorm).
"""

import ast
import base64
import mimetypes
import re
import textwrap
from pathlib import Path

from pybtex.database import parse_file

DIRECTIVE = re.compile(r"^(`{3,}|~{3,}|:{3,})\{([\w:-]+)\}\s*(.*)$")
FENCE = re.compile(r"^(`{3,}|~{3,})")
ROLE = re.compile(r"\{([\w:-]+)\}`([^`]+)`")
LABEL = re.compile(r"^\(([\w-]+)\)=\s*$")
IMAGE = re.compile(r"!\[([^\]]*)\]\((?!\w+:)([^)\s]+)\)")
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(#?([\w./-]+)\)")

ADMONITIONS = "admonition attention caution danger error hint important note seealso tip warning".split()
WRAPPERS = "card div dropdown epigraph grid grid-item grid-item-card margin sidebar tab-item tab-set topic".split()
DROPPED = "bibliography contents exercise-end index only raw solution-end tableofcontents toctree".split()
KINDS = {"eq": "", "fig": "figure ", "ex": "exercise ", "tab": "table "}


class Plain:
    """The plain form of one chapter's Markdown; knows the labels, references and files that the text points to."""

    def __init__(self, chapter):
        self.chapter = Path(chapter)
        root = self.chapter.parents[1]
        self.titles = {}
        for page in [root / "README.md", *sorted((root / "chapters").glob("*.md"))]:
            self.titles |= headings(page.read_text()) if page.exists() else {}
        self.works = parse_file(str(root / "references.bib")).entries if (root / "references.bib").exists() else {}

    # blocks

    def text(self, source):
        """Return the plain form of some Markdown: whole directives, formulas and code fences, or single lines."""
        lines, out = source.split("\n"), []
        while lines:
            line = lines.pop(0)
            if directive := DIRECTIVE.match(line):
                fence, name, argument = directive.groups()
                body = take(lines, re.compile(rf"^{fence[0]}{{{len(fence)},}}\s*$"))
                end = next((at for at, later in enumerate(lines) if "{solution-end}" in later), None)
                if name == "solution-start" and end is not None:  # else code cells stand between the two
                    body, lines = [*body, *lines[:end]], lines[end:]
                out.append(self.directive(name, argument.strip(), *options(body)))
            elif fence := FENCE.match(line):
                out += [line, *take(lines, re.compile(rf"^{fence[1]}\s*$")), fence[1]]
            elif line.startswith("$$"):
                end = re.compile(r"^.*\$\$\s*(\([\w-]+\))?\s*$")
                formula = [line] if end.match(line[2:]) else [line, *take(lines, end, keep=True)]
                body, _, label = "\n".join(formula)[2:].rpartition("$$")
                out.append(display(body, label.strip().strip("()")))
            elif not LABEL.match(line) and not line.startswith("%"):
                out.append(self.inline(line))
        return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip("\n")

    def directive(self, name, argument, settings, body):
        """Return the plain form of one directive."""
        label = settings.get("label", settings.get("name", ""))
        if name in DROPPED:
            return ""
        if name == "math":
            return display(argument + body, label)
        if name == "literalinclude":
            return self.titled(settings.get("caption"), f"```python\n{self.included(argument, settings)}\n```")
        if name in ("code", "code-block"):
            return self.titled(settings.get("caption"), f"```{argument}\n{body}\n```")
        if name in ("figure", "image"):
            picture = f"![{settings.get('alt', '')}]({self.data(argument)})"
            return picture + (f"\n\n{self.caption(label, body)}" if name == "figure" else "")
        if name == "table":
            return f"{self.caption(label, argument)}\n\n{self.text(body)}"
        if name == "glossary":
            return self.text(re.sub(r"^(\S.*)\n(?::|  )\s*", r"**\1**: ", body, flags=re.MULTILINE))
        if name in ("exercise", "exercise-start"):
            return self.titled(f"{self.named(label).capitalize()} {argument}".strip(), self.text(body))
        if name in ("solution", "solution-start"):
            title, argument = f"Solution to {self.named(argument)}", ""
        elif name == "admonition" or name in WRAPPERS:
            title, argument = self.inline(argument), ""
        elif name in ADMONITIONS:  # what follows the name is text already, as in {note} Mind the gap.
            title = name.capitalize()
        else:
            raise ValueError(f"{self.chapter.name}: directive {{{name}}} has no plain form in notebooks/plain.py")
        body = self.text(f"{argument}\n{body}")
        if "dropdown" in settings.get("class", "") or name in ("dropdown", "solution"):
            return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"
        body = self.titled(title, body)
        return textwrap.indent(body, "> ", lambda _: True) if name in ADMONITIONS else body

    def titled(self, title, body):
        """Put a bold title, if there is one, above a block."""
        return f"**{title}**\n\n{body}" if title else body

    def caption(self, label, body):
        """Return a caption in italics, with the name it is referred to by."""
        return f"*{self.named(label).capitalize()}.* {self.text(body)}" if label else self.text(body)

    def included(self, path, settings):
        """Return the source that literalinclude names: a file, or one function or class of it."""
        known = {"pyobject", "no-docstring", "language", "caption", "name", "class", "dedent", "lineno-match"}
        if unknown := set(settings) - known:
            raise ValueError(f"{self.chapter.name}: literalinclude with {sorted(unknown)} has no plain form")
        source = (self.chapter.parent / path).read_text().rstrip()
        if "pyobject" in settings:
            scope = ast.parse(source)
            for part in settings["pyobject"].split("."):
                scope = next(node for node in scope.body if getattr(node, "name", None) == part)
            first = min([scope.lineno, *(mark.lineno for mark in scope.decorator_list)])
            source = textwrap.dedent("\n".join(source.split("\n")[first - 1 : scope.end_lineno]))
        return without_docstrings(source) if "no-docstring" in settings else source

    def data(self, path):
        """Return a picture as a data address: a notebook on its own has no files beside it."""
        picture = (self.chapter.parent / path).read_bytes()
        return f"data:{mimetypes.guess_type(path)[0]};base64,{base64.b64encode(picture).decode()}"

    # within a line

    def inline(self, line):
        """Return a line with its roles, links and pictures made plain."""
        line = ROLE.sub(lambda match: self.role(*match.groups()), line)
        line = IMAGE.sub(lambda match: f"![{match[1]}]({self.data(match[2])})", line)
        return LINK.sub(self.link, line)

    def role(self, name, content):
        """Return the plain form of one role; `text <target>` shows the text."""
        text, _, target = content.partition("<") if content.endswith(">") else ("", "", f"{content}>")
        text, target = text.strip(), target[:-1]
        if name.startswith("cite"):
            form = "{} ({})" if name == "cite:t" else "{}, {}"
            works = "; ".join(form.format(*self.work(key.strip())) for key in content.split(","))
            return works if name == "cite:t" else f"({works})"
        if name in ("ref", "numref", "eq", "prf:ref"):
            number = self.named(target).rpartition(" ")[2]
            return re.sub(r"%s|\{number\}", number, text) if text else self.named(target)
        if name == "math":
            return f"${content}$"
        if name in ("code", "kbd"):
            return f"`{content}`"
        if name in ("term", "doc", "abbr", "download"):
            return text or target
        raise ValueError(f"{self.chapter.name}: role {{{name}}} has no plain form in notebooks/plain.py")

    def link(self, match):
        """Point links between chapters at their notebooks, and take those to labels away."""
        text, target = match.groups()
        if target in self.titles or target.partition("-")[0] in KINDS:
            return text or self.named(target)
        if target.endswith(".md"):
            notebook = Path(target).with_suffix(".ipynb").name
            return f"[{text}]({notebook})" if (self.chapter.parent / target).parent == self.chapter.parent else text
        return match[0]

    def named(self, label):
        """Say a label: the title of what it marks, or its kind and name."""
        kind, _, name = label.partition("-")
        return f"{KINDS[kind]}({name})" if kind in KINDS else self.titles.get(label, label)

    def work(self, key):
        """Return the authors and the year of an entry in references.bib."""
        if key not in self.works:
            raise ValueError(f"{self.chapter.name}: references.bib has no {key}")
        entry = self.works[key]
        names = [" ".join(person.prelast_names + person.last_names) for person in entry.persons["author"]]
        who = {1: "{0}", 2: "{0} and {1}"}.get(len(names), "{0} et al.").format(*names)
        return re.sub("[{}]", "", who), entry.fields["year"]


def headings(source):
    """Return {label: title} of the labelled headings of a page."""
    return dict(re.findall(r"^\(([\w-]+)\)=\n+#+ (.*)$", source, flags=re.MULTILINE))


def without_docstrings(source):
    """Return Python source without its docstrings, for pages whose text says the same at greater length."""
    lines = source.split("\n")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) and ast.get_docstring(node) is not None:
            text = node.body[0]
            lines[text.lineno - 1 : text.end_lineno] = [None] * (text.end_lineno - text.lineno + 1)
    return "\n".join(line for line in lines if line is not None)


def take(lines, end, keep=False):
    """Remove the lines up to the one that matches end and return them, the last one only if it is kept."""
    taken = []
    while lines:
        line = lines.pop(0)
        if end.match(line):
            return [*taken, line] if keep else taken
        taken.append(line)
    raise ValueError(f"no line matches {end.pattern} after {taken[:1]}")


def options(body):
    """Split a directive's lines into its options, `:key: value`, and the rest."""
    settings = {}
    while body and (option := re.match(r"^:([\w-]+):\s*(.*)$", body[0])):
        settings[option[1]] = option[2]
        body = body[1:]
    return settings, "\n".join(body).strip("\n")


def display(formula, label):
    """Return a displayed formula, aligned as Sphinx would where it has several lines."""
    formula = formula.strip()
    if r"\\" in formula and r"\begin" not in formula:
        formula = f"\\begin{{aligned}}\n{formula}\n\\end{{aligned}}"
    tag = f"\n\\tag{{{label.removeprefix('eq-')}}}" if label else ""
    return f"$$\n{formula}{tag}\n$$"
