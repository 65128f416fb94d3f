"""`piano build` with all that a Cargo project may have: workspaces, conditions, settings, crates that do not compile with guards."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import Project, need
from rusts import MANIFEST, OFFLINE, build, calls, crate, need_cargo, plain, run, tree  # noqa: F401


def member(name: str, dependencies: str = "", more: str = "", edition: str = "2021") -> str:
    return MANIFEST.format(name=name, edition=edition, more=f"{more}[dependencies]\n{dependencies}")


def real_rustc() -> Path:
    """rustc itself: rustup's looks at the name by which it is called."""
    root = subprocess.run(["rustc", "--print", "sysroot"], env={**os.environ, **OFFLINE}, text=True, stdout=subprocess.PIPE, check=True).stdout.strip()
    return Path(root, "bin/rustc")


def lib_of(project: Project, name: str) -> int:
    """When the library NAME was compiled last."""
    found = sorted((project.root / ".piano/build/cargo/release/deps").glob(f"lib{name}-*.rlib"))
    return found[-1].stat().st_mtime_ns


def forget_runs(project: Project) -> None:
    for old in project.run_files():
        old.unlink()


def test_crates_without_std_and_what_runs_in_the_compiler_stay(project: Project) -> None:
    """A crate without std may define the allocator, and share files. A library of the workspace may be used by build scripts and macros:
    these get no runtime, which would be loaded into the compiler."""
    project.write({
        "Cargo.toml": member("program", 'derive = { path = "derive" }\nbare = { path = "bare" }\nshared = { path = "shared" }\n',
                             '[workspace]\nmembers = ["derive", "bare", "shared"]\n[build-dependencies]\nshared = { path = "shared" }\n'),
        "build.rs": "fn from_script() -> u32 { shared::five(\"x\") }\nfn main() { println!(\"cargo:rustc-env=FIVE={}\", from_script()) }\n",
        "src/main.rs": '#[path = "../bare/src/both.rs"] mod both;\n'
                       'fn main() { println!("{} {} {} {} {}", env!("FIVE"), derive::seven!(), bare::add(1), both::twice(2), shared::five("y")) }\n',
        "derive/Cargo.toml": member("derive", 'shared = { path = "../shared" }\n', "[lib]\nproc-macro = true\n"),
        "derive/src/lib.rs": "extern crate proc_macro;\n#[proc_macro]\npub fn seven(_: proc_macro::TokenStream) -> proc_macro::TokenStream { (shared::five(\"z\") + 2).to_string().parse().unwrap() }\n",
        "shared/Cargo.toml": member("shared"),
        "shared/src/lib.rs": "#![no_std]\n#[cfg(unix)] extern crate std;\npub fn five(text: &str) -> u32 { text.len() as u32 + 4 }\n",
        "bare/Cargo.toml": member("bare"),
        "bare/src/both.rs": "pub fn twice(x: u32) -> u32 { x * 2 }\n",
        "bare/src/lib.rs": """#![no_std]
            mod both;
            use core::alloc::{GlobalAlloc, Layout};
            extern "C" { fn malloc(n: usize) -> *mut u8; fn free(p: *mut u8); }
            struct Own;
            unsafe impl GlobalAlloc for Own {
                unsafe fn alloc(&self, l: Layout) -> *mut u8 { malloc(l.size()) }
                unsafe fn dealloc(&self, p: *mut u8, _: Layout) { free(p) }
            }
            #[global_allocator]
            static OWN: Own = Own;
            pub fn add(x: u32) -> u32 { both::twice(x) }
            """})
    skipped = build(project, "--list-skipped").out
    assert "bare/src/lib.rs:12: add (a crate without std)" in skipped and "bare/src/both.rs:1: both::twice (a crate without std)" in skipped, skipped
    assert run(project).out == "5 7 2 4 5\n"
    assert calls(project) == {"main": 1, "five": 1}
    products = project.root / ".piano/build/cargo/release"
    programs = [*products.glob("deps/libderive-*.so"), *products.glob("build/program-*/build-script-build")]
    assert len(programs) >= 2, programs
    for path in programs:
        assert b"libpiano.so" not in path.read_bytes(), path


ODD = '''pub mod fine { pub fn yes(x: u32) -> u32 { x + 1 } }
pub mod odd {
    #[allow(non_upper_case_globals, dead_code)]
    const __piano_guard: u32 = 1;
    pub fn no(x: u32) -> u32 {
        x + 2
    }
}
'''


def test_a_function_that_does_not_compile_with_a_guard_loses_it(project: Project) -> None:
    """The others of its crate keep theirs, and the next build knows it."""
    project.write({"Cargo.toml": member("program", 'odd = { path = "odd" }\n', '[workspace]\nmembers = ["odd"]\n'),
                   "src/main.rs": "fn main() { println!(\"{}\", odd::fine::yes(1) + odd::odd::no(1)) }\n",
                   "odd/Cargo.toml": member("odd"), "odd/src/lib.rs": ODD})
    said = build(project).err
    assert "instrumented 2 functions in 2 files" in said, said
    assert run(project).out == "5\n"
    assert calls(project) == {"fine::yes": 1, "main": 1}
    first = lib_of(project, "odd")
    left_out = build(project, "--list-skipped").out
    assert re.search(r"^odd/src/lib.rs:5: odd::no \(does not compile with a guard: mismatched types\)$", left_out, re.M), left_out
    assert lib_of(project, "odd") == first, "nothing is compiled again"
    project.write({"odd/src/lib.rs": ODD.replace("    const", "    // const")})
    build(project)
    forget_runs(project)
    run(project)
    assert calls(project) == {"fine::yes": 1, "odd::no": 1, "main": 1}, "a changed file is tried again"


def test_a_crate_as_it_was_names_its_files_as_without_piano(project: Project, tmp_path: Path) -> None:
    """Two modules of one name do not compile, and no function is to blame."""
    project.write({"Cargo.toml": member("program", 'odd = { path = "odd" }\n', '[workspace]\nmembers = ["odd"]\n'),
                   "src/main.rs": "fn main() { println!(\"{}\", odd::place()) }\n",
                   "odd/Cargo.toml": member("odd"),
                   "odd/src/lib.rs": "mod __piano {}\nmod other;\npub fn place() -> String { other::place() }\n",
                   "odd/src/other.rs": "pub fn place() -> String { format!(\"{} {}\", file!(), line!()) }\n"})
    said = build(project).err
    assert "instrumented 1 function in 1 file" in said, said
    assert run(project).out == plain(project, tmp_path) == "odd/src/other.rs 1\n"
    assert calls(project) == {"main": 1}
    left_out = build(project, "--list-skipped").out
    assert "odd/src/other.rs:1: other::place (its crate does not compile with guards)" in left_out, left_out
    files = next((project.root / ".piano/build/cargo/release/deps").glob("odd-*.d")).read_text()
    assert str(project.root / "odd") not in files and "odd/src/other.rs" in files, "cargo compares the times of piano's copies"


def test_errors_of_the_user_are_compiled_twice_at_most(project: Project, tmp_path: Path) -> None:
    """Once with guards, once without. The messages are those of the user's own files, and cargo shows each once."""
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    (bin_dir / "rustc").write_text(f'#!/bin/sh\ncase "$*" in *main.rs*) echo "$*" >> {bin_dir}/log;; esac\nexec {real_rustc()} "$@"\n')
    (bin_dir / "rustc").chmod(0o755)
    crate(project, {"src/main.rs": "fn fine() {}\nfn main() {\n    fine();\n    let x: u32 = \"text\";\n}\n"})
    failed = project.piano("build", env={**OFFLINE, "RUSTC": str(bin_dir / "rustc")}, check=False)
    assert failed.status == 1
    assert failed.err.count("mismatched types") == 1 and "src/main.rs:4:18" in failed.err, failed.err
    assert len((bin_dir / "log").read_text().splitlines()) == 2


def test_what_cfg_leaves_out_is_not_instrumented(project: Project) -> None:
    crate(project, {"src/main.rs": """mod here;
            #[cfg(not(target_os = "linux"))] mod elsewhere;
            fn always() {}
            #[cfg(windows)] fn by_os() -> u32 { 1 }
            #[cfg(not(windows))] fn by_os() -> u32 { here::feature() }
            #[cfg(all(unix, any(feature = "extra", feature = "none")))] fn by_feature() -> u32 { 10 }
            #[cfg(not(feature = "extra"))] fn by_feature() -> u32 { 20 }
            #[cfg(test)] mod tests { #[test] fn passes() {} fn helps() {} }
            #[test] fn bare_test() {}
            fn main() { always(); println!("{}", by_os() + by_feature()) }
            """,
        "src/here.rs": '#[cfg(feature = "extra")] pub fn feature() -> u32 { 100 }\n#[cfg(not(feature = "extra"))]\npub fn feature() -> u32 { 200 }\n',
        "src/elsewhere.rs": "pub fn far() {}\n"}, more="[features]\nextra = []\n")
    expected = {"always": 1, "by_os": 1, "by_feature": 1, "here::feature": 1, "main": 1}
    for flags, out, line in ((), "220\n", 7), (("--features", "extra"), "110\n", 6):
        forget_runs(project)
        said = build(project, *flags).err
        assert "instrumented 5 functions in 2 files" in said, said
        assert run(project).out == out
        assert project.report().calls() == expected, "no row for a function that is not there"
        assert project.report().row("by_feature")["line"] == line
    wrong = build(project, "--fn", "tests::helps", check=False)
    assert wrong.status == 1 and "--fn tests::helps matches no function that was compiled" in wrong.err, wrong.err
    said = build(project, "--fn", "tests::", "--", "cargo", "test", "--no-run", "--release").err
    assert "instrumented 2 functions in 1 file" in said, said


def test_a_test_build_does_not_hide_what_became_of_the_library(project: Project) -> None:
    crate(project, {"src/lib.rs": "pub fn one() -> u32 { 1 }\n#[cfg(test)] mod __piano {}\n"})
    said = build(project, "--", "cargo", "build", "--release").err
    assert "instrumented 1 function in 1 file" in said, said
    said = build(project, "--", "cargo", "test", "--no-run", "--release", "--lib").err
    assert "instrumented 1 function in 1 file" in said, said


def test_files_that_begin_with_other_bytes(project: Project) -> None:
    crate(project, {"src/main.rs": "#!/usr/bin/env run-cargo-script\nmod mark;\nfn one(x: u32) -> u32 { x }\nfn main() { println!(\"{} {}\", one(1), mark::two()) }\n",
                    "src/mark.rs": "\ufeffpub fn two() -> u32 { 2 }\n"})
    build(project)
    assert run(project).out == "1 2\n"
    assert calls(project) == {"one": 1, "mark::two": 1, "main": 1}


def test_vendored_libraries_and_long_paths(project: Project) -> None:
    """Without git, an archive is a source unless it is newer than the sources. Names of marks do not grow with paths."""
    need("ar")
    deep = "/".join(["a" * 120, "b" * 120])
    crate(project, {"src/main.rs": f'#[path = "{deep}/m.rs"] mod m;\nextern "C" {{ fn from_c() -> i32; }}\nfn main() {{ println!("{{}}", m::add(unsafe {{ from_c() }})) }}\n',
                    f"src/{deep}/m.rs": "pub fn add(x: i32) -> i32 { x + 1 }\n",
                    "build.rs": 'fn main() { println!("cargo:rustc-link-search=native={}/vendor", std::env::var("CARGO_MANIFEST_DIR").unwrap()); println!("cargo:rustc-link-lib=static=own"); }\n',
                    "vendor/own.c": "int from_c(void) { return 41; }\n"})
    vendor = project.root / "vendor"
    subprocess.run([need("gcc"), "-c", "own.c", "-o", "own.o"], cwd=vendor, check=True)
    subprocess.run(["ar", "rcs", "libown.a", "own.o"], cwd=vendor, check=True)
    (vendor / "own.o").unlink()
    (vendor / "own.c").unlink()
    os.utime(vendor / "libown.a", (1_600_000_000, 1_600_000_000))
    build(project)
    assert run(project).out == "42\n"
    assert calls(project) == {"m::add": 1, "main": 1}


@pytest.mark.parametrize("how", ["version", "words in a file"])
def test_rustc_is_found_whatever_it_is_called(project: Project, tmp_path: Path, how: str) -> None:
    """`forbid` rejects the guard unless piano's wrapper adds its flags."""
    crate(project, {"src/main.rs": "#![forbid(unsafe_code)]\nfn one() -> u32 { 1 }\nfn main() { println!(\"{}\", one()) }\n"})
    if how == "version":
        (tmp_path / "rustc-1.99").symlink_to(real_rustc())
        around = {"RUSTC": str(tmp_path / "rustc-1.99")}
    else:
        wrapper = tmp_path / "wrapper"
        wrapper.write_text('#!/bin/sh\nrustc=$1; shift\nfile=$(mktemp)\nfor word; do printf "%s\\n" "$word"; done > "$file"\nexec "$rustc" "@$file"\n')
        wrapper.chmod(0o755)
        around = {"RUSTC_WRAPPER": str(wrapper), "TMPDIR": str(tmp_path)}
    said = project.piano("build", env={**OFFLINE, **around}).err
    assert "instrumented 2 functions" in said, said
    run(project)
    assert calls(project) == {"one": 1, "main": 1}


def test_a_member_of_a_workspace_with_a_state_of_its_own(project: Project) -> None:
    """Cargo builds a package only in its workspace."""
    project.write({"Cargo.toml": '[workspace]\nmembers = ["crates/app"]\nresolver = "2"\n[workspace.package]\nversion = "0.3.0"\n',
                   "crates/app/Cargo.toml": '[package]\nname = "app"\nversion.workspace = true\nedition = "2021"\n',
                   "crates/app/src/main.rs": "fn main() { println!(\"{}\", env!(\"CARGO_PKG_VERSION\")) }\n"})
    app = project.root / "crates/app"
    (app / ".piano").mkdir()
    build(project, cwd=app)
    assert project.piano("run", env=OFFLINE, cwd=app).out == "0.3.0\n"
    assert project.report(cwd=app).called() == {"main": 1}


def test_crates_beside_and_above_the_project(project: Project) -> None:
    """`../one` and `../../two`, which takes its version from the workspace above it."""
    above = project.root.parent
    project.root = above / "deep" / "project"
    project.root.mkdir(parents=True)
    project.write({"Cargo.toml": member("program", 'one = { path = "../one" }\ntwo = { path = "../../libs/two" }\n'),
                   "src/main.rs": "fn main() { println!(\"{} {}\", one::get(), two::get()) }\n",
                   "../one/Cargo.toml": member("one"), "../one/src/lib.rs": "pub fn get() -> u32 { 1 }\n",
                   "../../libs/Cargo.toml": '[workspace]\nmembers = ["two"]\n[workspace.package]\nversion = "0.2.0"\n',
                   "../../libs/two/Cargo.toml": '[package]\nname = "two"\nversion.workspace = true\nedition = "2021"\n',
                   "../../libs/two/src/lib.rs": "pub fn get() -> &'static str { env!(\"CARGO_PKG_VERSION\") }\n"})
    before = sorted(p.name for p in above.iterdir())
    build(project)
    assert run(project).out == "1 0.2.0\n"
    assert calls(project) == {"main": 1}
    assert sorted(p.name for p in above.iterdir()) == before
    assert not (above / "libs/Cargo.lock").exists() and not (above / "libs/target").exists()


def test_settings_of_cargo_count_once(project: Project, tmp_path: Path) -> None:
    """cargo reads .cargo/config.toml in all directories above: piano's copy is below the project. CARGO_TARGET_DIR is the user's own."""
    crate(project, {".cargo/config.toml": '[build]\nrustflags = ["--cfg", "once"]\n[env]\nFROM_CONFIG = "yes"\n',
                    "build.rs": 'fn main() { println!("cargo:rustc-env=FLAGS={}", std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap().replace("\\x1f", "|")) }\n',
                    "src/main.rs": '#[cfg(once)] fn flagged() -> u32 { 1 }\n#[cfg(not(once))] fn flagged() -> u32 { 2 }\n'
                                   'fn main() { println!("{} {} {}", flagged(), env!("FLAGS"), env!("FROM_CONFIG")) }\n'})
    before = tree(project)
    project.piano("build", env={**OFFLINE, "CARGO_TARGET_DIR": str(tmp_path / "target")})
    assert tree(project) == before and not (tmp_path / "target").exists()
    assert run(project).out == plain(project, tmp_path) == "1 --cfg|once yes\n"
    assert calls(project) == {"flagged": 1, "main": 1}


def test_locked_builds_fail_as_without_piano(project: Project) -> None:
    """piano itself must not write the Cargo.lock that `--locked` asks for."""
    crate(project, {"src/main.rs": "fn main() { println!(\"{}\", own::get()) }\n",
                    ".cargo/config.toml": '[source.crates-io]\nreplace-with = "vendored"\n[source.vendored]\ndirectory = "vendor"\n',
                    "vendor/own/Cargo.toml": '[package]\nname = "own"\nversion = "1.0.0"\nedition = "2021"\n',
                    "vendor/own/src/lib.rs": "pub fn get() -> u32 { 3 }\n", "vendor/own/.cargo-checksum.json": '{"files":{}}'},
          more='[dependencies]\nown = "1"\n')
    failed = build(project, "--", "cargo", "build", "--release", "--locked", check=False)
    assert failed.status == 1 and "--locked" in failed.err, failed.err
    build(project)
    assert run(project).out == "3\n", "vendored sources are found"
    assert calls(project) == {"main": 1}, "they are not the user's own"
    shutil.copy(next((project.root / ".piano/build/tree").glob("*/Cargo.lock")), project.root)
    build(project, "--", "cargo", "build", "--release", "--locked", "--offline")
    forget_runs(project)
    assert run(project).out == "3\n"


def test_cargo_starts_the_next_crate_before_the_last_is_done(project: Project, tmp_path: Path) -> None:
    """What rustc says is passed on at once: cargo compiles a crate when the metadata of what it uses is there."""
    project.write({"Cargo.toml": member("program", 'middle = { path = "middle" }\n', '[workspace]\nmembers = ["slow", "middle"]\n'),
                   "src/main.rs": "fn main() { println!(\"{}\", middle::get()) }\n",
                   "middle/Cargo.toml": member("middle", 'slow = { path = "../slow" }\n'), "middle/src/lib.rs": "pub fn get() -> u32 { slow::get() }\n",
                   "slow/Cargo.toml": member("slow"), "slow/src/lib.rs": "pub fn get() -> u32 { 3 }\n"})
    # The first library ends only when the compilation of the second has begun; without pipelining that is never.
    script = tmp_path / "rustc"
    script.write_text(f'''#!/bin/sh
case "$*" in
*"--crate-name middle "*) touch {tmp_path}/begun;;
esac
{real_rustc()} "$@" || exit
case "$*" in
*"--crate-name slow "*) n=0; while [ ! -e {tmp_path}/begun ] && [ $n -lt 200 ]; do sleep 0.05; n=$((n+1)); done; [ -e {tmp_path}/begun ];;
esac
''')
    script.chmod(0o755)
    project.piano("build", "-j", "2", env={**OFFLINE, "RUSTC": str(script)})
    assert run(project).out == "3\n"
    assert [row["calls"] for row in project.report().rows("get")] == [1, 1], "both kept their guards"
