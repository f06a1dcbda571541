"""Where a mutant changes a source, and how.

The text of a place is compared with the source token by token, so neither white
space nor comments matter.  It has to be there exactly once in its function."""

import re


class NoPlace(Exception):
    """What was to be changed is not there, or more than once."""


C_TOKEN = re.compile(r"""
    (?P<skip>\s+|/\*.*?\*/|//[^\n]*)
  | "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*'
  | [A-Za-z_]\w* | \d[\w.]*
  | <<= | >>= | \.\.\. | -> | \+\+ | -- | && | \|\| | [-+*/%&|^!=<>]= | << | >>
  | .""", re.X | re.S)
LUA_TOKEN = re.compile(r"""
    (?P<skip>\s+|--\[\[.*?\]\]|--[^\n]*)
  | "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | \[\[.*?\]\]
  | [A-Za-z_]\w* | \d[\w.]*
  | \.\.\.? | [=~<>]=
  | .""", re.X | re.S)
OPENED_BY = {")": "(", "]": "[", "}": "{"}


class Token(str):
    """A word of a source, which knows where it begins."""
    start = 0

    @property
    def end(self):
        return self.start + len(self)


def tokens_of(text, is_lua=False):
    tokens = []
    for match in (LUA_TOKEN if is_lua else C_TOKEN).finditer(text):
        if match["skip"] is None:
            token = Token(match[0])
            token.start = match.start()
            tokens.append(token)
    return tokens


def behind_bracket(tokens, i):
    """The index behind the bracket that closes the one at i."""
    depth = 0
    while i < len(tokens):
        depth += tokens[i] in OPENED_BY.values()
        depth -= tokens[i] in OPENED_BY
        i += 1
        if depth == 0:
            return i
    raise NoPlace("a bracket is not closed")


def function_in(tokens, text, name, is_lua):
    """First and last index, as of a slice, of the body of a function."""
    for i, token in enumerate(tokens[:-1]):
        if token != name or tokens[i + 1] != "(":
            continue
        if is_lua and i > 0 and tokens[i - 1] == "function":
            for j in range(i, len(tokens)):
                if tokens[j] == "end" and text[tokens[j].start - 1] == "\n":
                    return i, j + 1
        if not is_lua and (token.start == 0 or text[token.start - 1] == "\n"):
            body = behind_bracket(tokens, i + 1)
            if body < len(tokens) and tokens[body] == "{":
                return i, behind_bracket(tokens, body)
    raise NoPlace(f"there is no function {name}")


def only_match(tokens, first, last, wanted):
    """The index at which the wanted tokens begin, the only one between first and last."""
    found = [i for i in range(first, last - len(wanted) + 1)
             if tokens[i:i + len(wanted)] == wanted]
    if len(found) != 1:
        raise NoPlace(f"is there {len(found)} times: {' '.join(wanted)}")
    return found[0]


def statement_end(tokens, i, spans):
    """The index behind the statement that begins at i, with those in it in spans."""
    first = i
    if tokens[i] == "{":
        end = behind_bracket(tokens, i)
        i += 1
        while i < end - 1:
            i = statement_end(tokens, i, spans)
        i = end
    elif tokens[i] in ("if", "for", "while", "switch", "foreach", "dlist_foreach"):
        i = statement_end(tokens, behind_bracket(tokens, i + 1), spans)
        if tokens[first] == "if" and tokens[i] == "else":
            i = statement_end(tokens, i + 1, spans)
    elif tokens[i] == "do":
        i = statement_end(tokens, i + 1, spans)
        i = behind_bracket(tokens, i + 1) + 1
    elif tokens[i] in ("case", "default"):
        while tokens[i] != ":":
            i += 1
        return i + 1
    else:
        while tokens[i] != ";":
            i = behind_bracket(tokens, i) if tokens[i] in OPENED_BY.values() else i + 1
        i += 1
    spans.append((first, i))
    return i


def statement_around(tokens, function, first, last):
    """The smallest statement of the function that has the tokens from first to last in it."""
    spans = []
    statement_end(tokens, tokens.index("{", *function), spans)
    spans = [span for span in spans if span[0] <= first and last <= span[1]]
    if not spans:
        raise NoPlace("is in no statement")
    return min(spans, key=lambda span: span[1] - span[0])


def edited(text, path, function, verb, place, new):
    """The text with one place changed: the words themselves (replace, cut), or the
    statement that they are in."""
    is_lua = path.endswith(".lua")
    tokens = tokens_of(text, is_lua)
    wanted = tokens_of(place, is_lua)
    body = function_in(tokens, text, function, is_lua) if function else (0, len(tokens))
    first = only_match(tokens, *body, wanted)
    last = first + len(wanted)
    if verb not in ("replace", "cut"):
        if is_lua or not function:
            raise NoPlace(f"{verb} is for statements of a function in C")
        first, last = statement_around(tokens, body, first, last)
    start, end = tokens[first].start, tokens[last - 1].end
    is_alone = tokens[first - 1] in "{};:"
    line_end = "\n" + re.search(r"\s*", text[text.rfind("\n", 0, start) + 1:])[0]
    new = new.replace("\n", line_end)
    if verb == "drop":
        new = "" if is_alone else ";"
    elif verb == "before":
        if not is_alone:
            raise NoPlace("is all of a branch: nothing can stand before it")
        end = start
        new += line_end
    elif verb == "after":
        start = end
        new = line_end + new
    return text[:start] + new + text[end:]
