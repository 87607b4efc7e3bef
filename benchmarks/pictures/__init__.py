"""The pictures of README and docs, drawn from the records, light and dark; ``python benchmarks/draw_pictures.py``.

``style`` writes a drawing twice, ``records`` reads the numbers of a record. Each other module has drawings of one kind:
``perplexity`` by head, with its cost and a cache's temperature; ``schematics`` of the heads, with their data in
``heads.toml``; ``choice`` of a head as a tree; ``claims`` of the papers; ``performance`` of heads. ``screens`` takes
pictures of pages in a browser, which needs a real model.
"""
