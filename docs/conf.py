"""How `make docs` turns these pages into a site; docs/index.md is its table of contents.

The source folder is the repository's root, so that a link between README.md and docs/ leads to the
same page on the site as in the repository.
"""

project = "Warren"
html_title = "Warren"
root_doc = "docs/index"
include_patterns = ["*.md", "docs/*.md"]
exclude_patterns = [".*", "admin_web", "build"]

extensions = ["myst_parser"]
myst_heading_anchors = 3
# A link to a heading that does not exist is a warning, and `make docs` ends at a warning.
nitpicky = True

html_theme = "furo"
html_extra_path = ["site"]  # the first page, which leads to docs/
html_copy_source = False
html_show_copyright = False
