"""Selection of functions: --fn, --exact, --file, --dir, --skip, none of them, and no match."""
from __future__ import annotations

import pytest

from conftest import Project

TREE = {
    "src/parse/parser.h": """
        struct Parser { int parse_node(int n); int parse(int n); int peek(); };
        namespace lex { int parse(int n); int next(); }
        int parser_main(int n);
    """,
    "src/parse/parser.cc": """
        #include "parser.h"
        int Parser::parse_node(int n) { return n; }
        int Parser::parse(int n) { return parse_node(n) + peek(); }
        int Parser::peek() { return 1; }
    """,
    "src/lex/lexer.cc": """
        #include "../parse/parser.h"
        namespace lex {
        int parse(int n) { return n + next(); }
        int next() { return 1; }
        }
    """,
    "src/lex/util.cc": """
        #include <algorithm>
        #include <vector>
        #include "../parse/parser.h"
        int parser_main(int n)
        {
            Parser p;
            std::vector<int> v = {3, 1, 2};
            std::sort(v.begin(), v.end());
            return p.parse(n) + lex::parse(n) + v[0];
        }
    """,
    "main.cc": """
        #include "src/parse/parser.h"
        int main() { return parser_main(1) == 0; }
    """,
}
MAKEFILE = """OBJ = main.o src/parse/parser.o src/lex/lexer.o src/lex/util.o
app: $(OBJ)
\tg++ -o $@ $(OBJ)
%.o: %.cc
\tg++ -std=c++17 -O1 -c -o $@ $<
"""
ALL = {"Parser::parse_node", "Parser::parse", "Parser::peek", "lex::parse", "lex::next",
       "parser_main", "main"}


@pytest.fixture
def tree(project: Project) -> Project:
    project.write(TREE)
    (project.root / "Makefile").write_text(MAKEFILE)
    return project


@pytest.mark.parametrize("options,want", [
    ([], ALL),
    (["--fn", "parse"], {"Parser::parse_node", "Parser::parse", "lex::parse", "parser_main"}),
    (["--fn", "Parser::"], {"Parser::parse_node", "Parser::parse", "Parser::peek"}),
    (["--fn", "Parser::parse"], {"Parser::parse_node", "Parser::parse"}),
    (["--fn", "er::peek"], {"Parser::peek"}),
    (["--fn", "parse", "--exact"], {"Parser::parse", "lex::parse"}),
    (["--exact", "--fn", "lex::parse"], {"lex::parse"}),
    (["--fn", "next", "--fn", "peek"], {"lex::next", "Parser::peek"}),
    (["--file", "src/parse/parser.cc"], {"Parser::parse_node", "Parser::parse", "Parser::peek"}),
    (["--file", "lexer.cc"], {"lex::parse", "lex::next"}),
    (["--file", "lexer.cc", "--file", "main.cc"], {"lex::parse", "lex::next", "main"}),
    (["--dir", "src/lex"], {"lex::parse", "lex::next", "parser_main"}),
    (["--dir", "src"], ALL - {"main"}),
    (["--dir", "src/"], ALL - {"main"}),
    (["--dir", "src/lex", "--fn", "peek"], {"lex::parse", "lex::next", "parser_main",
                                            "Parser::peek"}),
    (["--skip", "main"], ALL - {"main"}),
    (["--fn", "parse", "--skip", "parser_main"], {"Parser::parse_node", "Parser::parse",
                                                  "lex::parse"}),
    (["--dir", "src/lex", "--skip", "lex::parse"], {"lex::next", "parser_main"}),
    (["--skip", "parse"], ALL - {"Parser::parse", "lex::parse"}),
    (["--fn=parse", "--exact"], {"Parser::parse", "lex::parse"}),
], ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_selection(tree: Project, options: list[str], want: set[str]) -> None:
    tree.command(tree.build(*options))
    assert tree.report().called() == dict.fromkeys(want, 1)


def test_dir_is_a_directory_not_a_prefix(project: Project) -> None:
    project.write({"lib/a.c": "int in_lib(void) { return 0; }\n",
                   "library/b.c": "int in_library(void) { return 0; }\n",
                   "m.c": "int in_lib(void); int in_library(void);\n"
                          "int main(void) { return in_lib() + in_library(); }\n"})
    project.command(project.build("--dir", "lib", "--", "gcc", "m.c", "lib/a.c", "library/b.c",
                                  "-o", "p"))
    assert project.report().called() == {"in_lib": 1}


def test_file_matches_whole_names(project: Project) -> None:
    project.write({"a.c": "int in_a(void) { return 0; }\n",
                   "ba.c": "int in_ba(void) { return 0; }\n",
                   "m.c": "int in_a(void); int in_ba(void);\n"
                          "int main(void) { return in_a() + in_ba(); }\n"})
    project.command(project.build("--file", "a.c", "--", "gcc", "m.c", "a.c", "ba.c", "-o", "p"))
    assert project.report().called() == {"in_a": 1}


def test_unknown_pattern_is_an_error_with_the_nearest_names(tree: Project) -> None:
    done = tree.piano("build", "--fn", "parse_nod3", check=False)
    assert done.status == 1 and done.out == ""
    assert "parse_nod3" in done.err and "parse_node" in done.err
    assert "lex::next" not in done.err, "far names are no help"


def test_pattern_far_from_everything_says_how_to_see_names(tree: Project) -> None:
    done = tree.piano("build", "--fn", "zzzzqqqq", check=False)
    assert done.status == 1
    assert "zzzzqqqq" in done.err


def test_every_pattern_must_match(tree: Project) -> None:
    done = tree.piano("build", "--fn", "peek", "--fn", "nexxt", check=False)
    assert done.status == 1
    assert "nexxt" in done.err and "next" in done.err


def test_exact_that_is_only_a_substring_is_an_error(tree: Project) -> None:
    done = tree.piano("build", "--fn", "pars", "--exact", check=False)
    assert done.status == 1 and "pars" in done.err


@pytest.mark.parametrize("option,value", [("--file", "lexxer.cc"), ("--dir", "src/lexx")])
def test_unknown_file_or_directory_is_an_error(tree: Project, option: str, value: str) -> None:
    done = tree.piano("build", option, value, check=False)
    assert done.status == 1
    assert value in done.err


def test_only_a_system_function_matches_is_no_match(project: Project) -> None:
    project.write({"m.cc": "#include <vector>\nint main() { std::vector<int> v; v.push_back(1);"
                           " return v.size() - 1; }\n"})
    done = project.piano("build", "--fn", "push_back", "--", "g++", "m.cc", "-o", "p", check=False)
    assert done.status == 1 and "push_back" in done.err


def test_list_skipped_gives_reasons(project: Project) -> None:
    project.write({"m.cc": "constexpr int square(int n) { return n * n; }\n"
                           "int plain(int n) { return square(n); }\n"
                           "int main() { return plain(0); }\n",
                   "fast.s": "\t.globl fast\nfast:\n\tret\n"
                             "\t.section .note.GNU-stack,\"\",@progbits\n"})
    done = project.piano("build", "--list-skipped", "--", "g++", "m.cc", "fast.s", "-o", "p")
    lines = done.out.splitlines()
    square = [line for line in lines if "square" in line]
    assert len(square) == 1 and "constexpr" in square[0] and "m.cc" in square[0], done
    assert any("fast.s" in line and "assembl" in line.lower() for line in lines), done
    assert not [line for line in lines if "plain" in line], done


def test_list_skipped_with_nothing_skipped(project: Project) -> None:
    project.write({"m.c": "int main(void) { return 0; }\n"})
    done = project.piano("build", "--list-skipped", "--", "gcc", "m.c", "-o", "p")
    assert done.out == ""
    assert "nothing was left out" in done.err and "instrumented 1 function" in done.err


@pytest.mark.parametrize("pattern,want", [
    ("Cache<", {"Cache::get", "Cache::operator<"}),
    ("Cache<std::pair<int, int>>::get", {"Cache::get"}),
    ("operator<", {"Cache::operator<"}),
])
def test_template_arguments_in_a_pattern(project: Project, pattern: str, want: set[str]) -> None:
    project.write({"m.cc": """
        template <class T> struct Cache {
            T v;
            T get() { return v; }
            bool operator<(const Cache &o) const { return v < o.v; }
        };
        int main() { Cache<int> c{1}; return c.get() - 1 + (c < c); }
    """})
    project.command(project.build("--fn", pattern, "--", "g++", "m.cc", "-o", "p"))
    assert set(project.report().called()) == want


def test_functions_never_called_are_known(project: Project) -> None:
    """Selected and never called: hidden by default, shown on request."""
    project.write({"m.c": "int idle(void) { return 0; }\nint busy(void) { return 0; }\n"
                          "int main(void) { for (int i = 0; i < 3; i++) busy(); return 0; }\n"})
    project.command(project.build("--", "gcc", "m.c", "-o", "p"))
    assert "idle" not in project.piano("report").out
    assert "idle" in project.piano("report", "--all").out
    assert project.report().calls("idle", "busy") == {"idle": 0, "busy": 3}


def test_name_with_regex_characters_is_plain_text(tree: Project) -> None:
    done = tree.piano("build", "--fn", "parse.*", check=False)
    assert done.status == 1


def test_a_suggestion_shows_hidden_characters(project: Project) -> None:
    """C allows some of these characters in names. Printed unchanged, they would reorder or hide text on a terminal."""
    project.write({"m.c": "int upd\u202eate_world(int n) { return n; }\nint main(void) { return 0; }\n"})
    done = project.piano("build", "--skip", "update_world", "--", "gcc", "-w", "m.c", "-o", "p")
    assert "did you mean upd\\u{202e}ate_world?" in done.err and "\u202e" not in done.err, done
