#!/usr/bin/env python3
"""A preprocessor of mdbook: gives the book the pages of the sources that its own pages link to.

The pages of `doc` are read without the book as well. So they link to decisions, to the proofs beside the code, and to
code. Each such Markdown file becomes a page: a decision below `Decisions`, all others at the end. A link to any other
file becomes its path, since the book does not hold it.
"""

import json
import os
import re
import sys

# A fenced block, code in a line, an image, and the target of a link or of a reference.
PARTS = re.compile(
    r"(?P<code>^ *```.*?^ *```|`[^`\n]+`)|!\[(?P<shows>[^]]*)\]\((?P<image>[^)\s]+)\)|(?<!!)\[(?P<text>(?:`[^`\n]*`|[^][`])*)\]\((?P<target>[^)\s]+)\)|(?P<reference>^\[[^]]+\]: )(?P<of>\S+)",
    re.DOTALL | re.MULTILINE,
)


class Pages:
    """The pages of the book, by their files below the root of the repository."""

    def __init__(self, root, source):
        self.root, self.source = root, source
        self.paths = {}
        self.added = []

    def page_of(self, file):
        """The page of a Markdown file, which becomes one if it is none."""
        if file not in self.paths:
            inside = os.path.relpath(file, self.source)
            page = os.path.join("sources", file) if inside.startswith("..") else inside
            if os.path.basename(page) == "README.md":
                page = os.path.join(os.path.dirname(page), "index.md")
            self.paths[file] = page
            self.added.append(file)
        return self.paths[file]

    def link(self, target, file):
        """The link, as it leads within the book. None if it leads out of it."""
        path, hash_sign, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:[^:]", path):
            return target
        wanted = os.path.normpath(os.path.join(os.path.dirname(file), path))
        if wanted == os.path.join(self.source, "SUMMARY.md"):
            return None
        if not wanted.endswith(".md") or not os.path.isfile(os.path.join(self.root, wanted)):
            return None
        here = os.path.dirname(self.paths[file]) or "."
        return os.path.relpath(self.page_of(wanted), here) + hash_sign + anchor

    def image(self, target, shows, file):
        """The image, if it is among the book's own files. Otherwise what it shows."""
        inside = os.path.relpath(os.path.join(os.path.dirname(file), target), self.source)
        if inside.startswith(".."):
            return shows
        return f"![{shows}]({os.path.relpath(inside, os.path.dirname(self.paths[file]) or '.')})"

    def rewritten(self, content, file):
        """The text of a page, with its links as they lead within the book."""

        def part(found):
            if found["code"]:
                return found[0]
            if found["image"]:
                return self.image(found["image"], found["shows"], file)
            if found["reference"]:
                return found["reference"] + (self.link(found["of"], file) or found["of"])
            link = self.link(found["target"], file)
            if link:
                return f"[{found['text']}]({link})"
            path = os.path.normpath(os.path.join(os.path.dirname(file), found["target"].partition("#")[0]))
            plain = found["text"].strip("`")
            # The book has a contents of its own, and not the pages of the library's items.
            if path == os.path.join(self.source, "SUMMARY.md") or "::" in path:
                return found["text"]
            return f"`{path}`" if path.endswith(plain) else f"{found['text']} (`{path}`)"

        return PARTS.sub(part, content)

    def chapter(self, file, number, parents):
        """A page that the summary does not list."""
        with open(os.path.join(self.root, file), encoding="utf-8") as opened:
            content = opened.read()
        title = re.search(r"^# (.*)$", content, re.MULTILINE)
        return {
            "name": (title[1] if title else file).replace("`", ""),
            "content": self.rewritten(content, file),
            "number": number,
            "sub_items": [],
            "path": self.paths[file],
            "source_path": None,
            "parent_names": parents,
        }


def chapters(items):
    """All chapters of the book, with those below others."""
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            yield item["Chapter"]
            yield from chapters(item["Chapter"]["sub_items"])


def main():
    if sys.argv[1:2] == ["supports"]:
        return
    context, book = json.load(sys.stdin)
    top = os.path.realpath(os.path.join(context["root"], context["config"]["book"]["src"]))
    root = os.path.dirname(top)
    pages = Pages(root, os.path.basename(top))
    listed = [(chapter, os.path.join(pages.source, chapter["source_path"])) for chapter in chapters(book["items"])]
    for chapter, file in listed:
        pages.paths[file] = chapter["path"]
    for chapter, file in listed:
        chapter["content"] = pages.rewritten(chapter["content"], file)
    # A page that is added can link to further ones.
    made = {}
    while len(made) < len(pages.added):
        file = pages.added[len(made)]
        made[file] = pages.chapter(file, None, [])
    folder = os.path.join(pages.source, "decisions")
    index = next(chapter for chapter, file in listed if file == os.path.join(folder, "README.md"))
    decisions = sorted(file for file in made if os.path.dirname(file) == folder)
    for place, file in enumerate(decisions, 1):
        made[file].update(number=[*index["number"], place], parent_names=[index["name"]])
        index["sub_items"].append({"Chapter": made[file]})
    others = sorted(file for file in made if file not in decisions)
    last = max(chapter["number"][0] for chapter, _ in listed if chapter["number"])
    book["items"].append({"PartTitle": "In the sources"})
    for place, file in enumerate(others, last + 1):
        made[file]["number"] = [place]
        book["items"].append({"Chapter": made[file]})
    json.dump(book, sys.stdout)


main()
