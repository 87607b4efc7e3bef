"""Pictures with a light and a dark drawing: ``<picture>`` in the repository, the theme's two images on the site."""

from __future__ import annotations

import re

PICTURE = re.compile(
    r'<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="(?P<dark>[^"]+)">\s*'
    r'<img src="(?P<light>[^"]+)" alt="(?P<alt>[^"]+)">\s*</picture>'
)


def switched(text: str) -> str:
    """A page whose pictures follow the site's switch, not only what the reader's system says.

    >>> switched('<picture><source media="(prefers-color-scheme: dark)" srcset="a-dark.svg"><img src="a.svg" alt="A">'
    ...          '</picture>')
    '![A](a.svg#only-light)![A](a-dark.svg#only-dark)'
    """
    return PICTURE.sub(
        lambda found: "![{alt}]({light}#only-light)![{alt}]({dark}#only-dark)".format(**found.groupdict()), text
    )
