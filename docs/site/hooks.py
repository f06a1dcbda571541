"""Two things that the theme has no setting for."""

from mkdocs.utils import get_relative_url

# The search of a page that is read from a directory needs a script of the theme's author.
# The theme would fetch it from this place.
ELSEWHERE = "https://unpkg.com/iframe-worker/shim"
HERE = "docs/site/iframe-worker.js"


def on_page_markdown(markdown, page, config, files):
    """What is for users comes first in the search."""
    if page.file.src_path.startswith(("src/", "test/")):
        page.meta.setdefault("search", {})["boost"] = 0.2


def on_post_page(output, page, config):
    return output.replace(ELSEWHERE, get_relative_url(HERE, page.url))


def on_post_template(output, template_name, config):
    return output.replace(ELSEWHERE, HERE)
