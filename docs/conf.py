"""How the documentation is built: ``make docs``. Nothing is fetched from the network, and every warning is an error."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

import heatsketch

project = "heatsketch"
author = "The heatsketch developers"
copyright = "the heatsketch developers"  # noqa: A001
version = release = heatsketch.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["gallery/*.ipynb"]
# reStructuredText first: autosummary writes its pages with the first suffix that no parser claims by name.
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb", ".ipynb": "myst-nb"}
default_role = "literal"  # in our docstrings single backticks are code
smartquotes = False  # quotation marks in docstrings are those of Python
show_warning_types = True

# Markdown pages read on GitHub as they do here: headings are link targets by the same names.
myst_heading_anchors = 4
myst_links_external_new_tab = False

# Notebooks are kept without outputs and run here; an error in one is an error of the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300  # seconds a cell
nb_merge_streams = True

toc_object_entries_show_parents = "hide"
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc describes types, with shapes
autodoc_member_order = "bysource"
# `Estimate` and `estimate` would be the same file on file systems that ignore case.
autosummary_filename_map = {f"heatsketch.{name}": f"heatsketch.{name}-class" for name in ("Estimate", "Multiscale")}
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# Figures are drawn without a screen, whatever backend the user has set: Sphinx-Gallery and the kernels of notebooks
# choose their own.
os.environ.pop("MPLBACKEND", None)
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_\w+\.py",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "matplotlib_animations": False,
    "backreferences_dir": "api/generated/backreferences",
    "doc_module": ("heatsketch",),
    "image_scrapers": ("matplotlib",),
    "image_srcset": ["2x"],
}

html_theme = "pydata_sphinx_theme"
html_title = "heatsketch"
html_static_path = ["_static"]
html_css_files = ["heatsketch.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "heatsketch"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 7,
    "show_prev_next": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "friendly",
    "pygments_dark_style": "github-dark",
}

_EXAMPLE = re.compile(r"(?:\.\./)+examples/gallery/(plot_\w+)\.py")
_GALLERY = re.compile(r"(?:\.\./)+examples/gallery/README\.rst")
_CLASSES = "|".join(name for name in heatsketch.__all__ if name[0].isupper())
_OTHERS = "|".join(name for name in heatsketch.__all__ if name[0].islower())
# A name, or a class with parameters; what looks like a function with arguments may well be the method of that name.
_PUBLIC = re.compile(rf"(?:hs\.|heatsketch\.)?(?:({_CLASSES})(?:\([^()]*\))?|({_OTHERS}))")
_NOT_INSIDE = (nodes.reference, nodes.title, addnodes.pending_xref)
_SAMPLE = "report_of_digits.html"
_PICTURE_OF_SAMPLE = "report_light.png"


def link_to_gallery(app: Sphinx, docname: str, source: list[str]) -> None:  # noqa: ARG001
    """Let links to the source of an example, which GitHub can show, lead to its page in the gallery."""
    source[0] = _GALLERY.sub("/gallery/index.rst", _EXAMPLE.sub(r"/gallery/\1.rst", source[0]))


def link_names(app: Sphinx, doctree: nodes.document) -> None:
    """Let public names in running text lead to their page in the reference."""
    page = app.env.docname
    if page.startswith("api/generated"):
        return
    for literal in list(doctree.findall(nodes.literal)):
        found = _PUBLIC.fullmatch(literal.astext())
        if found is None or any(isinstance(node, _NOT_INSIDE) for node in _ancestors(literal)):
            continue
        link = addnodes.pending_xref(
            "",
            refdomain="py",
            reftype="obj",
            reftarget=f"heatsketch.{found[1] or found[2]}",
            refdoc=page,
            refexplicit=True,
        )
        literal.replace_self(link)
        link += literal


def trim_examples(app: Sphinx, doctree: nodes.document) -> None:  # noqa: ARG001
    """Drop the empty line that ends an example in Markdown, where doctest needs it and readers do not."""
    for block in doctree.findall(nodes.literal_block):
        if block.astext() == block.rawsource:
            block.rawsource = block.rawsource.rstrip("\n")
            block.children = [nodes.Text(block.rawsource)]


def offer_download(app: Sphinx, doctree: nodes.document) -> None:
    """Put a link to the notebook itself below the title of its page."""
    path = app.env.doc2path(app.env.docname)
    if path.suffix == ".ipynb":
        link = addnodes.download_reference("", "", nodes.literal("", path.name), reftarget=path.name)
        title = next(doctree.findall(nodes.title))
        title.parent.insert(1, nodes.paragraph("", "", nodes.Text("Download this notebook: "), link))


def link_to_sample(app: Sphinx, doctree: nodes.document) -> None:
    """Let the picture of a report lead to a report that can be tried."""
    for image in list(doctree.findall(nodes.image)):
        if image["uri"].endswith(_PICTURE_OF_SAMPLE):
            depth = app.env.docname.count("/")
            link = nodes.reference("", "", refuri="../" * depth + _SAMPLE, internal=True)
            image.replace_self(link)
            link += image
            open_it = nodes.reference("", "Open this page and try it.", refuri=link["refuri"], internal=True)
            link.parent.parent.insert(link.parent.parent.index(link.parent) + 1, nodes.paragraph("", "", open_it))


def write_sample(app: Sphinx, error: Exception | None) -> None:
    """Write the report of the digits beside the pages of the site."""
    if error is None and app.builder.format == "html":
        images, digits = heatsketch.datasets.digits()
        model = heatsketch.HeatSketch(random_state=0).fit(images)
        path = Path(app.outdir) / _SAMPLE
        heatsketch.write_report(model, path, columns={"digit": digits}, title="Handwritten digits")


def skip_foreign(app: Sphinx, what: str, name: str, member: Any, *rest: Any) -> bool | None:  # noqa: ARG001
    """Leave out members that scikit-learn documents, and names that a module only imports from another."""
    home = str(getattr(member, "__module__", ""))
    page = app.env.docname.rpartition("/")[2]
    handed_on = what == "module" and home.startswith("heatsketch.") and not f"{home}.".startswith(f"{page}.")
    return True if home.startswith("sklearn.") or handed_on else None


def _ancestors(node: nodes.Node) -> Any:
    while node.parent is not None:
        node = node.parent
        yield node


def setup(app: Sphinx) -> None:
    """Connect what this site adds to Sphinx."""
    app.connect("source-read", link_to_gallery)
    app.connect("doctree-read", offer_download, priority=400)  # before Sphinx collects downloads
    app.connect("doctree-read", link_names)
    app.connect("doctree-read", link_to_sample)
    app.connect("doctree-read", trim_examples)
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("build-finished", write_sample)
