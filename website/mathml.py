"""Formulas as MathML: a Markdown extension, so that the site needs neither a script nor the network to show them."""

from __future__ import annotations

import html
from xml.etree import ElementTree

from latex2mathml.converter import convert_to_element
from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor

DELIMITERS = {r"\(": r"\)", r"\[": r"\]"}
"""What pymdownx.arithmatex puts around inline formulas, and around those on lines of their own."""


class _MathML(Treeprocessor):
    def run(self, root: ElementTree.Element) -> None:
        for holder in root.iter():
            if "arithmatex" not in holder.get("class", "").split() or not holder.text:
                continue
            text = holder.text.strip()
            opening, formula = text[:2], html.unescape(text[2:-2])
            if DELIMITERS.get(opening) != text[-2:]:
                raise ValueError(f"website: not a formula: {text!r}")
            formula_element = convert_to_element(formula, display="block" if opening == r"\[" else "inline")
            unknown = [part.text for part in formula_element.iter() if (part.text or "").startswith("\\")]
            if unknown:
                raise ValueError(f"website: no MathML for {', '.join(unknown)} in {formula!r}")
            holder.text = None
            holder.append(formula_element)


class MathMLExtension(Extension):
    """Turns what arithmatex found into MathML."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - the name that Markdown calls
        """Runs after the inline patterns, which find the formulas inside paragraphs."""
        md.treeprocessors.register(_MathML(md), "mathml", 15)


def makeExtension(**settings: object) -> MathMLExtension:  # noqa: N802 - the name that Markdown calls
    """The extension, as Markdown makes it."""
    return MathMLExtension(**settings)
