"""Sphinx's configuration of the documentation site; `build.py` beside it stages what Sphinx reads."""

from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

project = "fedbnsl"
author = "the fedbnsl authors"
version = release = installed("fedbnsl")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_gallery.gen_gallery"]
root_doc = "index"
exclude_patterns = ["scripts"]

# Docstrings are Markdown, of which reStructuredText reads all but single backticks as meant.
default_role = "code"
highlight_language = "none"
napoleon_use_rtype = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
myst_heading_anchors = 4
suppress_warnings = ["myst.header", "config.cache"]  # the changelog skips a level of headings

html_theme = "pydata_sphinx_theme"
html_title = "fedbnsl"
html_show_sourcelink = False
html_copy_source = False
html_static_path = [str(Path(__file__).parent / "static")]
html_js_files = ["names.js"]
html_theme_options: dict[str, Any] = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 6,
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": []}
copyright = author

sphinx_gallery_conf = {
    "examples_dirs": "scripts",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/\w+\.py$",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_signature": False,
    "abort_on_example_error": True,
    "parallel": True,
    "min_reported_time": 10**6,
    "write_computation_times": False,
}
