"""Language features of C and C++, and compiler options: functions are counted, or left unchanged."""
from __future__ import annotations

import re

import pytest

from conftest import Project, need

BOTH_C = pytest.mark.parametrize("compiler", ["gcc", "clang"])
BOTH_CXX = pytest.mark.parametrize("compiler", ["g++", "clang++"])


def cxx(project: Project, compiler: str, source: str, *flags: str):
    return project.profile_c(source, *flags, compiler=compiler, name="prog.cc")


# One row or two --------------------------------------------------------------------------------


@BOTH_C
def test_static_inline_in_a_header_is_one_row(project: Project, compiler: str) -> None:
    need(compiler)
    project.write({
        "vec.h": "static inline int dot(int a, int b) { return a * b; }\nint other(int);\n",
        "a.c": '#include "vec.h"\nint main(void) { int s = 0;\n'
               "for (int i = 0; i < 10; i++) s += dot(i, i) + other(i); return s == 0; }\n",
        "b.c": '#include "vec.h"\nint other(int n) { return dot(n, 1) + dot(n, 2); }\n'})
    project.command(project.build("--", compiler, "-O2", "a.c", "b.c", "-o", "p"))
    row = project.report().row("dot")
    assert (row["calls"], row["file"], row["line"]) == (30, "vec.h", 1)


@BOTH_C
def test_same_named_statics_are_two_rows(project: Project, compiler: str) -> None:
    need(compiler)
    project.write({
        "a.c": "int other(int);\nstatic int helper(int n) { return n; }\n"
               "int main(void) { helper(1); return other(0); }\n",
        "b.c": "/*\n*/\n\nstatic int helper(int n) { return n; }\n"
               "int other(int n) { helper(n); helper(n); return helper(n); }\n"})
    project.command(project.build("--", compiler, "-O2", "a.c", "b.c", "-o", "p"))
    rows = {(r["file"], r["line"]): r["calls"] for r in project.report().rows("helper")}
    assert rows == {("a.c", 2): 1, ("b.c", 4): 3}


def test_same_named_statics_on_the_same_line_of_two_directories(project: Project) -> None:
    project.write({
        "x/util.c": "static int helper(int n) { return n; }\nint x(void) { return helper(1); }\n",
        "y/util.c": "static int helper(int n) { return n; }\nint y(void) { return helper(1); }\n",
        "main.c": "int x(void); int y(void);\nint main(void) { x(); y(); return y() - 1; }\n"})
    project.command(project.build("--", "gcc", "main.c", "x/util.c", "y/util.c", "-o", "p"))
    rows = {r["file"]: r["calls"] for r in project.report().rows("helper")}
    assert rows == {"x/util.c": 1, "y/util.c": 2}


def test_file_and_line_of_a_function(project: Project) -> None:
    report = project.profile_c("\n\nint\nfirst(int n)\n{\n  return n;\n}\n"
                               "int main(void)\n{ return first(0); }\n")
    # write() strips leading blank lines, so `first` is named in line 2
    row = report.row("first")
    assert row["file"] == "prog.c" and row["line"] in (1, 2)
    assert report.row("main")["line"] == 6


# C ---------------------------------------------------------------------------------------------


@BOTH_C
def test_old_and_odd_definitions(project: Project, compiler: str) -> None:
    report = project.profile_c("""
        #include <stdio.h>
        #define MAKE(name, op) int name##_op(int a, int b) { return a op b; }
        MAKE(add, +)
        MAKE(sub, -)
        #define OPEN {
        #define BODY return 5; }
        int kr(a, b) int a; char *b; { return a + b[0]; }
        int (in_parens)(int n) { return n; }
        int (*returns_pointer(int n))(int) { return n ? in_parens : 0; }
        int hidden_brace(void) OPEN BODY
        static int array_arg(int n, int a[static n]) { return a[n - 1]; }
        int vla(int n, int a[n][n]) { return a[0][0]; }
        int variadic(int n, ...) { return n; }
        struct pair { int a, b; } make_pair_(int a) { struct pair p = {a, a}; return p; }
        int empty_body(void) {} int same_line(void) { return 2; }
        int main(void)
        {
            int a[2] = {1, 2}, m[2][2] = {{0}};
            kr(1, "x"); in_parens(1); returns_pointer(1)(1); hidden_brace(); array_arg(2, a);
            vla(2, m); variadic(1, 2); make_pair_(1); empty_body(); same_line();
            printf("%d %d\\n", add_op(2, 3), sub_op(2, 3));
            return 0;
        }
    """, "-std=gnu99", "-w", compiler=compiler)
    assert project.out == "5 -1\n"
    want = {n: 1 for n in ("main", "kr", "returns_pointer", "hidden_brace", "array_arg", "vla",
                           "variadic", "make_pair_", "empty_body", "same_line",
                           "add_op", "sub_op")}
    assert report.called() == {**want, "in_parens": 2}


def test_digraphs_count_or_are_listed(project: Project) -> None:
    project.write({"a.c": "int digraph(void) <% return 0; %>\n"
                          "int main(void) { return digraph(); }\n"})
    listed = project.piano("build", "--list-skipped", "--", "gcc", "a.c", "-o", "p").out
    project.command(next((project.root / ".piano").rglob("p")))
    calls = project.report().called()
    assert calls["main"] == 1
    assert calls.get("digraph") == 1 or "digraph" in listed


@BOTH_C
def test_labels_gotos_and_statement_expressions(project: Project, compiler: str) -> None:
    report = project.profile_c("""
        int leading_label(int n) { again: if (--n > 0) goto again; return n; }
        int computed(int n)
        {
            static void *jump[] = { &&zero, &&one };
            goto *jump[n];
        zero: return 0;
        one: return 1;
        }
        int expression(int n) { return ({ int k = n; k * 2; }); }
        int duff(int n) { int c = 0; switch (n & 3) { case 0: do { c++; case 3: c++; case 2: c++;
            case 1: c++; } while ((n -= 4) > 0); } return c; }
        int main(void)
        {
            return leading_label(5) || computed(0) || computed(1) != 1 || expression(2) != 4
                || duff(8) != 8;
        }
    """, "-w", compiler=compiler)
    assert report.called() == {"main": 1, "leading_label": 1, "computed": 2, "expression": 1,
                               "duff": 1}


def test_gcc_nested_functions(project: Project) -> None:
    report = project.profile_c("""
        int outer(int n)
        {
            int add(int k) { return k + n; }
            return add(1) + add(2);
        }
        int main(void) { return outer(10) != 23; }
    """)
    assert report.calls("main", "outer") == {"main": 1, "outer": 1}


@BOTH_C
def test_attributes(project: Project, compiler: str) -> None:
    """Functions that cannot hold a guard are left unchanged; the others are counted."""
    report = project.profile_c("""
        #include <stdio.h>
        __attribute__((naked)) int bare(void) { __asm__("movl $7, %eax; ret"); }
        static inline __attribute__((always_inline)) int always(int n) { return n + 1; }
        __attribute__((noinline, cold)) int cold(int n) { return n; }
        __attribute__((target("avx2"))) int vector_target(int n) { return n; }
        __attribute__((pure)) int pure_one(int n) { return n; }
        __attribute__((const)) int const_one(int n) { return n; }
        __attribute__((visibility("hidden"))) int hidden(int n) { return n; }
        __attribute__((weak)) int weak_one(int n) { return n; }
        int original(int n) { return n; }
        int alias(int n) __attribute__((alias("original")));
        static int early_count;
        __attribute__((constructor)) static void early(void) { early_count++; }
        __attribute__((destructor)) static void late(void) { fflush(stdout); }
        int main(void)
        {
            int sum = bare() + always(1) + cold(1) + pure_one(1) + const_one(2) + hidden(1)
                    + weak_one(1) + original(1) + alias(1);
            vector_target(1);
            printf("%d %d\\n", sum, early_count);
            return 0;
        }
    """, "-w", compiler=compiler)
    assert project.out == "17 1\n"
    calls = report.calls()
    assert "bare" not in report.called()
    for name in ("always", "cold", "hidden", "weak_one", "vector_target", "early", "main"):
        assert calls[name] == 1, name
    assert calls["original"] == 2


@BOTH_C
def test_a_file_with_an_ifunc_is_left_alone(project: Project, compiler: str) -> None:
    """Its resolver calls a helper before the program has thread-local storage."""
    project.write({"pick.c": """
        static int has_fast(void) { return 1; }
        static int fast(int n) { return n + 1; }
        static int slow(int n) { return n + 2; }
        static int (*pick(void))(int) { return has_fast() ? fast : slow; }
        int add(int n) __attribute__((ifunc("pick")));
    """, "main.c": """
        #include <stdio.h>
        int add(int n);
        int main(void) { printf("%d\\n", add(1)); return 0; }
    """})
    command = ("--", compiler, "pick.c", "main.c", "-o", "p")
    assert project.command(project.build(*command)).out == "2\n"
    assert project.report().called() == {"main": 1}
    listed = project.piano("build", "--list-skipped", *command).out
    assert "pick.c: (uses ifunc: its functions may run before the program is relocated)" in listed
    assert "has_fast (its file uses ifunc)" in listed


@pytest.mark.parametrize("flags", ["", "-static"])
def test_cxx_objects_linked_by_the_c_driver(project: Project, flags: str) -> None:
    project.write({"a.cpp": """
        #include <stdio.h>
        extern "C" int other(int);
        int twice(int n) { return other(n) + other(n); }
        int main() { printf("%d\\n", twice(2)); return 0; }
    """, "o.c": "int other(int n) { return n * 2; }\n"})
    (project.root / "Makefile").write_text(
        "p: a.o o.o\n\tgcc " + flags + " a.o o.o -o p\na.o: a.cpp\n\tg++ -O1 -c a.cpp\n"
        "o.o: o.c\n\tgcc -O1 -c o.c\n")
    assert project.command(project.build()).out == "8\n"
    assert project.report().called() == {"main": 1, "twice": 1, "other": 2}


def test_cxx_plugin_linked_by_the_c_driver(project: Project) -> None:
    project.write({"a.cpp": """
        extern "C" int other(int);
        extern "C" int twice(int n) { return other(n) + other(n); }
    """, "o.c": "int other(int n) { return n * 2; }\n", "m.c": """
        #include <dlfcn.h>
        #include <stdio.h>
        int main(int argc, char **argv)
        {
            void *plugin = dlopen(argv[argc - 1], RTLD_NOW);
            int (*twice)(int) = plugin ? (int (*)(int))dlsym(plugin, "twice") : 0;
            if (twice)
                printf("%d\\n", twice(2));
            return twice ? 0 : 1;
        }
    """})
    (project.root / "Makefile").write_text(
        "m: m.c p.so\n\tgcc m.c -o m -ldl\np.so: a.cpp o.c\n\tg++ -fPIC -O1 -c a.cpp\n"
        "\tgcc -fPIC -O1 -c o.c\n\tgcc -shared a.o o.o -o p.so\n")
    program = project.build()
    assert project.command(program, program.parent / "p.so").out == "8\n"
    assert project.report().called() == {"main": 1, "twice": 1, "other": 2}


def test_cxx_plugin_of_a_recorded_c_program(project: Project) -> None:
    """Both were built for piano, and the plugin needs libpiano before libstdc++: piano must not find its own `new` as the next one."""
    project.write({"a.cpp": """
        #include <new>
        struct alignas(64) Wide { char text[64]; };
        extern "C" int made(int n)
        {
            Wide *wide = new Wide;
            int *several = new int[n];
            int off = (int)((unsigned long)wide % 64);
            delete wide;
            delete[] several;
            return off + n;
        }
    """, "m.c": """
        #include <dlfcn.h>
        #include <stdio.h>
        int main(int argc, char **argv)
        {
            void *plugin = dlopen(argv[argc - 1], RTLD_NOW);
            int (*made)(int) = plugin ? dlsym(plugin, "made") : 0;
            if (made)
                printf("%d\\n", made(5));
            return !made;
        }
    """})
    (project.root / "Makefile").write_text(
        "all: m.c p.so\n\tgcc m.c -o m -ldl\np.so: a.cpp\n\tg++ -std=c++17 -fPIC -shared a.cpp -o p.so\n")
    program = project.build()
    plugin = program.parent / "p.so"
    assert project.command(program, plugin).out == "5\n"
    done = project.piano("record", "--heap", "-o", "r.rec", "--", program, plugin)
    assert done.out == "5\n"


@BOTH_C
def test_assert_file_line_func_and_counter(project: Project, compiler: str) -> None:
    """The program sees the same values of __LINE__, __FILE__ and similar as without piano."""
    source = """
        #include <stdio.h>
        #define GLUE2(a, b) a##b
        #define GLUE(a, b) GLUE2(a, b)
        int GLUE(f, __COUNTER__)(void) { printf("%s:%d %s %d\\n", __FILE__, __LINE__, __func__,
            __COUNTER__); return __LINE__; }
        int main(void)
        { int a = __LINE__; int b = f0(); printf("%d %d %s\\n", a, b, __BASE_FILE__); return 0; }
    """
    project.write({"plain.c": source})
    project.command(compiler, "plain.c", "-o", "plain")
    want = project.command(project.root / "plain").out.replace("plain.c", "prog.c")
    project.profile_c(source, compiler=compiler)
    assert project.out == want


def test_line_directives_of_generators(project: Project) -> None:
    report = project.profile_c('#line 40 "grammar.y"\nint parse(void)\n{ return 0; }\n'
                               '#line 3 "prog.c"\nint main(void) { return parse(); }\n')
    row = report.row("parse")
    assert (row["file"].split("/")[-1], row["line"]) == ("grammar.y", 40)


@pytest.mark.parametrize("name,text", [
    ("crlf", b"int update(void)\r\n{\r\n    return 0;\r\n}\r\nint main(void)\r\n{\r\n"
             b"    return update();\r\n}\r\n"),
    ("bom", b"\xef\xbb\xbfint update(void) { return 0; }\nint main(void) { return update(); }\n"),
    ("latin1", b"/* caf\xe9 */ const char *s = \"\xe9\xff\";\nint update(void) { return 0; }\n"
               b"int main(void) { return update(); }\n"),
    ("no-newline", b"int update(void) { return 0; } int main(void) { return update(); }"),
    ("one-long-line", b"int update(void) { return 0; } int table[] = {" + b"1," * 40000
                      + b"}; int main(void) { return update(); }\n"),
    ("spliced", b"int upd\\\nate(void) \\\n{ return \\\n0; }\n"
                b"int main(void) { return update(); }\n"),
    ("nul", b"int update(void) { return 0; } /* \0 */\nint main(void) { return update(); }\n"),
    ("formfeed", b"int update(void) {\f return 0; }\n\v\fint main(void) { return update(); }\n"),
])
def test_odd_bytes(project: Project, name: str, text: bytes) -> None:
    (project.root / "odd.c").write_bytes(text)
    project.command(project.build("--fn", "update", "--", "gcc", "-w", "odd.c", "-o", "odd"))
    assert project.report().called() == {"update": 1}


# C++ -------------------------------------------------------------------------------------------


@BOTH_CXX
def test_methods_and_templates(project: Project, compiler: str) -> None:
    report = cxx(project, compiler, """
        #include <vector>
        #include <algorithm>
        #include <functional>
        namespace geo {
        struct Shape {
            Shape(int n) : a{n}, b{n} { a += 0; }
            virtual ~Shape() { }
            virtual int area() const { return a * b; }
            static int count(int n) { return n; }
            int operator+(const Shape &o) const { return a + o.a; }
            operator int() const { return a; }
            int a, b;
        };
        struct Square final : Shape {
            Square(int n) : Shape(n) { }
            int area() const override { return a * a; }
        };
        namespace { int local(int n) { return n; } }
        inline namespace v1 { int versioned() { return local(1); } }
        }
        template <typename T> T twice(T x) { return x + x; }
        template <> long twice<long>(long x) { return 2 * x; }
        template <typename T> struct Box { T v; T get() const { return v; } };
        template <typename... A> int count_all(A... a) { return sizeof...(a); }
        struct Outer { struct Inner { int go() { return 1; } }; };
        auto trailing(int n) -> int { return n; }
        int noexcept_one(int n) noexcept { return n; }
        int main()
        {
            geo::Square s(3); geo::Shape t(2);
            geo::Shape *p = &s;
            int sum = p->area() + t.area() + geo::Shape::count(1) + (s + t) + (int)t
                    + geo::versioned();
            twice(1); twice(2.0); twice(3L); Box<int>{1}.get(); Box<char>{'c'}.get();
            count_all(1, 2, 3); count_all(); Outer::Inner().go();
            trailing(1); noexcept_one(1);
            std::vector<int> v = {3, 1, 2};
            std::sort(v.begin(), v.end(), [](int a, int b) { return a < b; });
            std::function<int(int)> f = [&](int n) { return n + sum; };
            return f(0) - sum;
        }
    """, "-std=c++17")
    calls = {row["name"]: row["calls"] for row in report.functions if row["calls"]}
    assert calls["geo::Square::area"] == 1 and calls["geo::Shape::area"] == 1
    assert calls["geo::Shape::Shape"] == 2 and calls["geo::Square::Square"] == 1
    assert calls["geo::Shape::~Shape"] == 2
    assert calls["geo::Shape::count"] == 1 and calls["geo::Shape::operator+"] == 1
    assert calls["Outer::Inner::go"] == 1
    assert calls["trailing"] == 1 and calls["noexcept_one"] == 1 and calls["main"] == 1

    def total(prefix: str) -> int:
        return sum(r["calls"] for r in report.functions
                   if re.match(prefix + r"(<|::|$)", r["name"]))

    assert total("twice") == 3
    assert total("count_all") == 2
    assert sum(r["calls"] for r in report.functions if re.fullmatch(r"Box(<.*>)?::get",
                                                                     r["name"])) == 2
    assert not [n for n in calls if n.startswith(("std::", "__gnu", "operator new"))]
    assert any(n.endswith("local") for n in calls) and any(n.endswith("versioned") for n in calls)


@BOTH_CXX
def test_function_try_blocks_count_or_are_listed(project: Project, compiler: str) -> None:
    need(compiler)
    project.write({"a.cc": """
        struct Thing {
            int n;
            Thing(int k) try : n(k) { if (k) throw k; } catch (int) { throw 2.0; }
        };
        int guarded(int n) try { if (n) throw n; return 0; } catch (int) { return 1; }
        int main()
        {
            int bad = guarded(0) + (guarded(1) != 1);
            try { Thing t(1); return 9; } catch (double) { }
            return bad + Thing(0).n;
        }
    """})
    listed = project.piano("build", "--list-skipped", "--", compiler, "a.cc", "-o", "p").out
    project.command(next((project.root / ".piano").rglob("p")))
    calls = project.report().called()
    assert calls["main"] == 1
    assert calls.get("guarded") == 2 or "guarded" in listed
    assert calls.get("Thing::Thing") == 2 or "Thing" in listed


@BOTH_CXX
@pytest.mark.parametrize("std", ["c++98", "c++11", "c++14", "c++17", "c++20"])
def test_cxx_standards(project: Project, compiler: str, std: str) -> None:
    report = cxx(project, compiler, """
        #include <string>
        #include <map>
        #include <iostream>
        struct Parser { std::map<std::string, int> seen; int parse(const std::string &s); };
        int Parser::parse(const std::string &s) { return ++seen[s]; }
        int main() { Parser p; p.parse("a"); std::cout << p.parse("a") << std::endl; return 0; }
    """, f"-std={std}", "-Wall", "-Wextra", "-Wshadow", "-pedantic", "-Werror")
    assert project.out == "2\n"
    assert report.called() == {"Parser::parse": 2, "main": 1}


@BOTH_CXX
def test_constexpr_is_left_alone(project: Project, compiler: str) -> None:
    report = cxx(project, compiler, """
        constexpr int square(int n) { return n * n; }
        static_assert(square(4) == 16, "");
        struct Point {
            int x;
            constexpr Point(int n) : x(n) { }
            constexpr int get() const { return x; }
        };
        constexpr Point origin(3);
        static_assert(origin.get() == 3, "");
        template <int N> constexpr int depth()
        {
            if constexpr (N == 0) return 0; else return 1 + depth<N - 1>();
        }
        int table[depth<5>()];
        auto lambda = [](int n) constexpr { return n; };
        int plain(int n) { return n; }
        int main() { return plain(square(0)) + lambda(0); }
    """, "-std=c++17")
    assert report.calls("plain", "main") == {"plain": 1, "main": 1}


@BOTH_CXX
def test_cxx20(project: Project, compiler: str) -> None:
    report = cxx(project, compiler, """
        #include <concepts>
        #include <compare>
        template <typename T> concept Number = std::integral<T>;
        template <Number T> T add(T a, T b) { return a + b; }
        auto abbreviated(auto x) { return x; }
        consteval int at_compile_time(int n) { return n + 1; }
        struct Version { int major; auto operator<=>(const Version &) const = default; };
        struct No { No() = default; No(const No &) = delete; };
        int requires_clause(auto x) requires Number<decltype(x)> { return x; }
        int main()
        {
            No no; (void)no;
            return add(1, 2) + abbreviated(1) + at_compile_time(1) + requires_clause(1) - 7
                 + (Version{1} < Version{2} ? 0 : 1);
        }
    """, "-std=c++20")
    assert report.row("main")["calls"] == 1
    for name in ("add", "abbreviated", "requires_clause"):
        assert sum(r["calls"] for r in report.functions
                   if re.match(name + r"(<|$)", r["name"])) == 1, name


def test_coroutines_still_work(project: Project) -> None:
    """A coroutine suspends and resumes; the program must work, whatever is counted."""
    report = cxx(project, "g++", """
        #include <coroutine>
        #include <cstdio>
        struct Gen {
            struct promise_type {
                int value;
                Gen get_return_object()
                {
                    return {std::coroutine_handle<promise_type>::from_promise(*this)};
                }
                std::suspend_always initial_suspend() { return {}; }
                std::suspend_always final_suspend() noexcept { return {}; }
                std::suspend_always yield_value(int v) { value = v; return {}; }
                void return_void() { }
                void unhandled_exception() { }
            };
            std::coroutine_handle<promise_type> h;
        };
        Gen count(int n) { for (int i = 0; i < n; i++) co_yield i; }
        int plain(int n) { return n; }
        int main()
        {
            int sum = 0;
            Gen a = count(5), b = count(5);
            while (a.h.resume(), !a.h.done()) { sum += plain(a.h.promise().value); b.h.resume(); }
            b.h.destroy(); a.h.destroy();
            std::printf("%d\\n", sum);
            return 0;
        }
    """, "-std=c++20", "-fcoroutines")
    assert project.out == "10\n"
    assert report.calls("plain", "main") == {"plain": 5, "main": 1}


@BOTH_CXX
@pytest.mark.parametrize("flag", ["-fno-exceptions", "-fno-rtti", "-O3", "-Os", "-g3", "-fPIC",
                                  "-fvisibility=hidden", "-flto", "-fno-omit-frame-pointer",
                                  "-fstack-protector-all", "-D_FORTIFY_SOURCE=2"])
def test_cxx_flags(project: Project, compiler: str, flag: str) -> None:
    if flag == "-flto":
        plain = project.command(need(compiler), flag, "-x", "c++", "-", "-o", project.home / "plain", stdin="int main() {}\n", check=False)
        if plain.status != 0:  # Ubuntu 24.04 has no LLVMgold.so where clang looks for it
            pytest.skip(f"{compiler} cannot link with -flto here, without piano")
    report = cxx(project, compiler, """
        #include <memory>
        struct Node {
            std::unique_ptr<Node> next;
            int sum() const { return 1 + (next ? next->sum() : 0); }
        };
        int main()
        {
            auto head = std::make_unique<Node>();
            head->next = std::make_unique<Node>();
            return head->sum() - 2;
        }
    """, "-std=c++17", flag)
    assert report.called() == {"Node::sum": 2, "main": 1}


# Compiler options ------------------------------------------------------------------------------

STRICT = ["-Wall", "-Wextra", "-Wshadow", "-pedantic", "-Wmissing-prototypes",
          "-Wstrict-prototypes", "-Wdeclaration-after-statement", "-Wunused", "-Wundef",
          "-Wconversion", "-Wcast-qual", "-Wredundant-decls", "-Werror"]


@BOTH_C
@pytest.mark.parametrize("std", ["c90", "c99", "c11", "gnu89", "gnu17", "c2x"])
def test_werror(project: Project, compiler: str, std: str) -> None:
    report = project.profile_c("""
        #include <stdio.h>
        #include <stdlib.h>
        static int update(int n) { return n + 1; }
        static void nothing(void) { }
        int main(void)
        {
            char *block = malloc(10);
            nothing();
            if (!block)
                return 1;
            free(block);
            printf("%d\\n", update(1));
            return 0;
        }
    """, f"-std={std}", *STRICT, compiler=compiler)
    assert project.out == "2\n"
    assert report.called() == {"update": 1, "main": 1, "nothing": 1}


@BOTH_C
def test_pedantic_errors(project: Project, compiler: str) -> None:
    report = project.profile_c("int main(void) { int a = 0; return a; }\n", "-std=c90",
                               "-pedantic-errors", "-Wdeclaration-after-statement", "-Werror",
                               compiler=compiler)
    assert report.called() == {"main": 1}


def test_clang_weverything(project: Project) -> None:
    report = project.profile_c("static int half(int n) { return n / 2; }\n"
                               "int main(void) { return half(1); }\n",
                               "-Weverything", "-Werror", compiler="clang")
    assert report.called() == {"half": 1, "main": 1}


TWO = {"a.c": "#include \"v.h\"\nint main(void) { return other(VALUE) - VALUE; }\n",
       "b.c": "#include \"v.h\"\nint other(int n) { return n; }\n",
       "v.h": "#ifndef VALUE\n#define VALUE 3\n#endif\nint other(int n);\n"}


@BOTH_C
@pytest.mark.parametrize("flags", [
    ["-pipe"], ["-save-temps"], ["-save-temps=obj"], ["-O3", "-march=x86-64"], ["-g", "-O0"],
    ["-DVALUE=(1 + 2)"], ["-D", "VALUE=9"], ["-I", "."], ["-iquote", "."], ["-include", "v.h"],
    ["-x", "c"], ["-Wl,-O1"], ["-Wl,--as-needed"], ["-Xlinker", "-O1"], ["-fPIE", "-pie"],
    ["-no-pie"], ["-fstack-protector-strong"], ["-ffunction-sections", "-Wl,--gc-sections"],
    ["-fno-common"], ["-std=c11"], ["--std=c11"], ["-fcf-protection=full"], ["-pthread"],
    ["-fno-plt"], ["-Wp,-DVALUE=4"], ["-U", "VALUE"], ["-fdiagnostics-color=always"],
    ["-fno-asynchronous-unwind-tables"], ["-fomit-frame-pointer"], ["-fno-exceptions"],
], ids=" ".join)
def test_several_sources_in_one_command(project: Project, compiler: str,
                                        flags: list[str]) -> None:
    need(compiler)
    project.write(TWO)
    project.command(project.build("--", compiler, *flags, "a.c", "b.c", "-o", "p"))
    assert project.report().called() == {"main": 1, "other": 1}


@BOTH_C
def test_response_files(project: Project, compiler: str) -> None:
    need(compiler)
    project.write({**TWO, "flags.rsp": "-O2 '-DVALUE=(1 + 3)'\n@more.rsp\n",
                   "more.rsp": 'a.c "b.c"\n-o\np\n'})
    project.command(project.build("--", compiler, "@flags.rsp"))
    assert project.report().called() == {"main": 1, "other": 1}


@BOTH_C
def test_source_from_stdin(project: Project, compiler: str) -> None:
    need(compiler)
    project.write({"a.c": "int other(int);\nint main(void) { return other(0); }\n", "build.sh": f"""
        set -e
        echo 'int other(int n) {{ return n; }}' | {compiler} -x c - -c -o other.o
        {compiler} a.c other.o -o p
    """})
    project.command(project.build("--", "sh", "build.sh"))
    assert project.report().calls("main") == {"main": 1}


@BOTH_C
def test_assembler_sources_are_left_alone(project: Project, compiler: str) -> None:
    need(compiler)
    project.write({
        "fast.s": "\t.globl fast\n\t.type fast,@function\nfast:\n\tmovl $5, %eax\n\tret\n"
                  "\t.section .note.GNU-stack,\"\",@progbits\n",
        "cpp.S": "#define FIVE 5\n\t.globl cpp\n\t.type cpp,@function\ncpp:\n\tmovl $FIVE, %eax\n"
                 "\tret\n\t.section .note.GNU-stack,\"\",@progbits\n",
        "main.c": "int fast(void); int cpp(void);\nint main(void) { return fast() - cpp(); }\n"})
    done = project.piano("build", "--list-skipped", "--", compiler, "main.c", "fast.s", "cpp.S",
                         "-o", "p")
    assert "fast.s" in done.out + done.err and "cpp.S" in done.out + done.err
    project.command(next((project.root / ".piano").rglob("p")))
    assert project.report().called() == {"main": 1}


@BOTH_C
@pytest.mark.parametrize("flags", [["-MD"], ["-MMD"], ["-MD", "-MF", "deps/a.dep"],
                                   ["-MMD", "-MP", "-MT", "other target.o"], ["-Wp,-MD,a.pd"],
                                   ["-MD", "-MQ", "$(x).o"]], ids=" ".join)
def test_dependency_files_equal_those_without_piano(project: Project, compiler: str,
                                                    flags: list[str]) -> None:
    need(compiler)
    (project.root / "deps").mkdir()
    project.write({**TWO, "deps/.keep": "", "build.sh": f"""
        set -e
        {compiler} {' '.join("'" + f + "'" for f in flags)} -c a.c -o a.o
        {compiler} -c b.c -o b.o
        {compiler} a.o b.o -o p
    """})
    program = project.build("--", "sh", "build.sh")
    project.command("sh", "build.sh")
    names = [n for n in ("a.d", "deps/a.dep", "a.pd") if (project.root / n).exists()]
    assert names
    for name in names:
        mine, theirs = program.parent / name, project.root / name
        assert mine.read_text() == theirs.read_text(), name
        assert "v.h" in mine.read_text()


@BOTH_C
@pytest.mark.parametrize("flags", [["-E", "a.c"], ["-M", "a.c"], ["-MM", "a.c"], ["--version"],
                                   ["-dumpmachine"], ["-print-file-name=libc.so"],
                                   ["-fsyntax-only", "a.c"], ["-E", "-dM", "a.c"]], ids=" ".join)
def test_queries_to_the_compiler_pass_through(project: Project, compiler: str,
                                              flags: list[str]) -> None:
    need(compiler)
    words = " ".join(flags)
    project.write({**TWO, "build.sh": f"{compiler} {words} > plain.txt 2> plain.err\n"
                                      f"{compiler} a.c b.c -o p\n"})
    program = project.build("--", "sh", "build.sh")
    project.command("sh", "build.sh")
    for name in ("plain.txt", "plain.err"):
        assert (program.parent / name).read_text() == (project.root / name).read_text(), name


@BOTH_C
def test_assembly_output(project: Project, compiler: str) -> None:
    """-S, then the assembler, then a link: the guards are in the assembly text."""
    need(compiler)
    project.write({**TWO, "build.sh": f"""
        set -e
        {compiler} -O1 -S a.c -o a.s
        {compiler} -O1 -S b.c
        {compiler} a.s b.s -o p
    """})
    project.piano("build", "--", "sh", "build.sh")
    made = next((project.root / ".piano").rglob("p"))
    assert project.command(made).status == 0


@BOTH_C
def test_save_temps_leaves_its_files(project: Project, compiler: str) -> None:
    need(compiler)
    project.write(TWO)
    folder = project.build("--", compiler, "-save-temps", "a.c", "b.c", "-o", "p").parent
    found = {path.suffix for path in folder.iterdir()}
    assert ".s" in found or ".i" in found


def test_precompiled_header(project: Project) -> None:
    project.write({**TWO, "build.sh": """
        set -e
        gcc -x c-header v.h -o v.h.gch
        gcc -include v.h a.c b.c -o p
    """})
    project.command(project.build("--", "sh", "build.sh"))
    assert project.report().called() == {"main": 1, "other": 1}


@BOTH_C
def test_freestanding_code_still_builds(project: Project, compiler: str) -> None:
    """Units without a C library or runtime are left unchanged, beside a program that has them."""
    need(compiler)
    project.write({"start.c": """
        static void leave(long code)
        {
            __asm__ volatile("syscall" : : "a"(231L), "D"(code) : "rcx", "r11", "memory");
            for (;;) { }
        }
        void _start(void) { leave(5); }
    """, "main.c": "int main(void) { return 0; }\n", "build.sh": f"""
        set -e
        {compiler} -O1 -ffreestanding -nostdlib -static -fno-stack-protector start.c -o start
        {compiler} main.c -o hosted
    """})
    program = project.build("--", "sh", "build.sh")
    assert project.command(program.parent / "start", check=False).status == 5
    project.command(program.parent / "hosted")
    assert project.report().calls("main") == {"main": 1}


@pytest.mark.parametrize("compiler,sanitizer", [("gcc", "address"), ("clang", "address"),
                                                ("gcc", "undefined"), ("gcc", "thread")])
def test_programs_with_sanitizers_run(project: Project, compiler: str, sanitizer: str) -> None:
    report = project.profile_c("""
        #include <stdlib.h>
        #include <stdio.h>
        int update(int n) { char *p = malloc(n); p[0] = 1; free(p); return n; }
        int main(void) { for (int i = 1; i < 8; i++) update(i); puts("fine"); return 0; }
    """, f"-fsanitize={sanitizer}", compiler=compiler)
    assert project.out == "fine\n"
    assert report.called() == {"update": 7, "main": 1}


def test_sanitizer_still_finds_the_bug(project: Project) -> None:
    program = project.cc("""
        #include <stdlib.h>
        int update(char *p) { return p[10]; }
        int main(void) { char *p = malloc(10); int r = update(p); free(p); return r; }
    """, "-fsanitize=address", "-g")
    done = project.command(program, check=False)
    assert done.status != 0
    assert "heap-buffer-overflow" in done.err and "prog.c:2" in done.err


def test_debug_lines_are_the_users(project: Project) -> None:
    need("gdb")
    program = project.cc("int update(int n)\n{\n    int k = n;\n    return k + 1;\n}\n"
                         "int main(void)\n{\n    return update(1) - 2;\n}\n", "-g", "-O0")
    done = project.command("gdb", "-nx", "-batch", "-ex", "break prog.c:4", "-ex", "run",
                           "-ex", "print k", "-ex", "backtrace", program)
    assert "$1 = 1" in done.out and "prog.c:4" in done.out and "prog.c:8" in done.out


def test_functions_in_headers_outside_the_project_are_not_taken(project: Project) -> None:
    outside = project.home / "include"
    outside.mkdir()
    (outside / "lib.h").write_text("static inline int lib_one(int n) { return n; }\n")
    project.write({"a.c": '#include <lib.h>\nint main(void) { return lib_one(0); }\n'})
    project.command(project.build("--", "gcc", "-isystem", outside, "a.c", "-o", "p"))
    assert project.report().called() == {"main": 1}


def test_openmp(project: Project) -> None:
    report = project.profile_c("""
        #include <stdio.h>
        int work(int n) { return n; }
        int main(void)
        {
            int sum = 0;
        #pragma omp parallel for reduction(+:sum) num_threads(4)
            for (int i = 0; i < 100; i++)
                sum += work(i);
            printf("%d\\n", sum);
            return 0;
        }
    """, "-fopenmp")
    assert project.out == "4950\n"
    assert report.called() == {"work": 100, "main": 1}


def test_linker_scripts_pass(project: Project) -> None:
    project.write({"a.c": "int main(void) { return 0; }\n", "extra.ld": "/* nothing */\n"})
    project.command(project.build("--", "gcc", "a.c", "extra.ld", "-o", "p"))
    assert project.report().called() == {"main": 1}
