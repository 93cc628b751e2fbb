"""Give literalinclude the option `:no-docstring:`, for pages whose text explains what the docstring says."""

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.directives.code import LiteralInclude

from notebooks.plain import without_docstrings


class Source(LiteralInclude):
    """Sphinx's literalinclude, which can leave docstrings out."""

    option_spec = LiteralInclude.option_spec | {"no-docstring": directives.flag}

    def run(self):
        """Return what literalinclude returns, its code shortened if that is asked."""
        included = super().run()
        if "no-docstring" in self.options:
            for block in (block for node in included for block in node.findall(nodes.literal_block)):
                code = without_docstrings(block.astext())
                block.rawsource, block.children = code, [nodes.Text(code)]
        return included


def setup(app):
    """Register with Sphinx."""
    app.add_directive("literalinclude", Source, override=True)
    return {"version": "1", "parallel_read_safe": True}
