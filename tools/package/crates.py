"""The crates that are linked into piano-rust, with their licences.

usage: crates.py notices Cargo.toml DIR     copies their licences, and those of Rust's standard library, to DIR
       crates.py copyright DIR              prints paragraphs for debian/copyright; DIR was made by `notices`
"""
from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
EITHER = "MIT OR Apache-2.0"
UNICODE = "Unicode-3.0"
LICENSES = {"proc-macro2": EITHER, "quote": EITHER, "syn": EITHER, "unicode-ident": f"({EITHER}) AND {UNICODE}"}
AUTHORS = {name: "David Tolnay and the contributors" for name in LICENSES}
STD = "rust-std"
STD_AUTHORS = "The Rust Project contributors"


class Crate(NamedTuple):
    name: str
    version: str
    sha256: str

    @property
    def license(self) -> str:
        return LICENSES[self.name]  # a new crate needs an entry there


def crates() -> list[Crate]:
    """What src/rust/Cargo.lock has from the registry."""
    text = (ROOT / "src/rust/Cargo.lock").read_text(encoding="utf-8")
    return [Crate(*found) for found in re.findall(r'name = "(.*)"\nversion = "(.*)"\nsource = ".*"\nchecksum = "(.*)"', text)]


def copy_notices(manifest: str, folder: Path) -> None:
    """One file for each crate with all its licences."""
    done = subprocess.run(["cargo", "metadata", "--locked", "--offline", "--format-version", "1", "--manifest-path", manifest],
                          stdout=subprocess.PIPE, check=True)
    sources = {each["name"]: Path(each["manifest_path"]).parent for each in json.loads(done.stdout)["packages"]}
    for crate in crates():
        files = sorted(sources[crate.name].glob("LICENSE*"))
        text = "\n".join(f"{crate.name} {crate.version}: {file.name}\n\n{file.read_text(encoding='utf-8')}" for file in files)
        (folder / f"{crate.name}.txt").write_text(text, encoding="utf-8")
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], stdout=subprocess.PIPE, check=True).stdout.decode().strip()
    for notice in (Path(sysroot, "share/doc/rust/COPYRIGHT-library.html"), Path("/usr/share/doc/libstd-rust-dev/copyright")):
        if notice.exists():
            (folder / f"{STD}{notice.suffix or '.txt'}").write_bytes(notice.read_bytes())
            return


def debian_name(license_id: str) -> str:
    return license_id.replace("MIT", "Expat").replace(" OR ", " or ").replace(" AND ", ", and ").strip("(").replace(")", "")


def print_copyright(folder: Path) -> None:
    for crate in crates():
        authors = AUTHORS[crate.name] + ("\n           1991-2023 Unicode, Inc." if UNICODE in crate.license else "")
        print(f"Files: {crate.name}-{crate.version}/*\nCopyright: {authors}\nLicense: {debian_name(crate.license)}\n"
              "Comment: linked into /usr/lib/piano/piano-rust\n")
    print(f"Files: {STD}/*\nCopyright: {STD_AUTHORS}\nLicense: {debian_name(EITHER)}\n"
          "Comment: linked into /usr/lib/piano/piano-rust\n")
    print("License: Apache-2.0\n On Debian systems, the text of this license is in\n /usr/share/common-licenses/Apache-2.0.\n")
    text = (folder / "unicode-ident.txt").read_text(encoding="utf-8").partition("LICENSE-UNICODE\n\n")[2].strip()
    print(f"License: {UNICODE}\n" + "\n".join(f" {line.strip() or '.'}" for line in text.splitlines()))


def main() -> int:
    if sys.argv[1:2] == ["notices"] and len(sys.argv) == 4:
        copy_notices(sys.argv[2], Path(sys.argv[3]))
    elif sys.argv[1:2] == ["copyright"] and len(sys.argv) == 3:
        print_copyright(Path(sys.argv[2]))
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
