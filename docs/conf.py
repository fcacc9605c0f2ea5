"""How Sphinx builds these pages: Markdown in, HTML out, nothing fetched."""

from __future__ import annotations

from importlib.metadata import version as installed_version

project = "Relance"
project_copyright = "the Relance authors"
release = version = installed_version("relance")

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"Relance {release}"
html_show_sphinx = False
html_copy_source = False
nitpicky = True
