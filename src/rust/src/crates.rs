//! The files of a crate: follows `mod name;` from the root file, by the rules of rustc.
use std::fmt::Write;
use std::path::{Path, PathBuf};

use syn::{Attribute, Expr, Item, Lit, Meta};

use crate::functions;

/// A file of more bytes is generated, and parsing it would take minutes.
const MOST_BYTES: usize = 64 << 20;
/// Modules nested deeper than this are a ring of `#[path]`.
const MOST_DEPTH: usize = 64;

struct Walk<'a> {
    out: &'a mut String,
    seen: Vec<PathBuf>,
}

/// A file that was parsed, and where its modules are.
struct Place<'a> {
    file: &'a Path,
    /// The directory of the files of its modules.
    modules: PathBuf,
    names: Vec<String>,
}

pub fn describe(root: &Path, out: &mut String) {
    let mut walk = Walk { out, seen: Vec::new() };
    let modules = root.parent().unwrap_or_else(|| Path::new(".")).to_path_buf();
    walk.file(&Place { file: root, modules, names: Vec::new() }, true);
}

fn is_plain_no_std(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|a| a.path().is_ident("no_std") || a.path().is_ident("no_core"))
}

/// The value of `#[path = "..."]`.
fn path_of(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    })
}

impl Walk<'_> {
    fn file(&mut self, place: &Place, is_root: bool) {
        if self.seen.iter().any(|p| p == place.file) || place.names.len() > MOST_DEPTH {
            return;
        }
        self.seen.push(place.file.to_path_buf());
        let name = place.file.display();
        let text = match std::fs::read(place.file).map(String::from_utf8) {
            Ok(Ok(text)) if text.len() <= MOST_BYTES => text,
            Ok(_) => {
                let _ = writeln!(self.out, "error\t{name}\t0\tit is not UTF-8, or too large");
                return;
            }
            Err(error) if is_root => {
                let _ = writeln!(self.out, "error\t{name}\t0\t{error}");
                return;
            }
            Err(_) => return, // a module of another platform
        };
        let parsed = match syn::parse_file(&text) {
            Ok(parsed) => parsed,
            Err(error) => {
                let line = error.span().start().line;
                let _ = writeln!(self.out, "error\t{name}\t{line}\t{}", one_line(&error.to_string()));
                return;
            }
        };
        if is_root {
            let std = if is_plain_no_std(&parsed.attrs) { "no_std" } else { "std" };
            let _ = writeln!(self.out, "crate\t{name}\t{std}");
        }
        let _ = writeln!(self.out, "file\t{name}");
        // proc-macro2 does not count the byte order mark, which syn removes.
        let skipped = if text.starts_with('\u{feff}') { 3 } else { 0 };
        functions::describe(&parsed, &place.names, skipped, self.out);
        self.modules(&parsed.items, place, &place.modules, &place.names, 0);
    }

    /// Follows the modules among ITEMS, which are in PLACE. DIR is where their files are.
    fn modules(&mut self, items: &[Item], place: &Place, dir: &Path, names: &[String], depth: usize) {
        for item in items {
            let Item::Mod(module) = item else { continue };
            let name = module.ident.to_string();
            let name = name.trim_start_matches("r#");
            let mut inner = names.to_vec();
            inner.push(name.to_string());
            let path = path_of(&module.attrs);
            if let Some((_, items)) = &module.content {
                let dir = dir.join(path.as_deref().unwrap_or(name));
                self.modules(items, place, &dir, &inner, depth + 1);
                continue;
            }
            for (file, modules) in candidates(place, dir, name, path.as_deref(), depth) {
                if file.is_file() {
                    self.file(&Place { file: &file, modules, names: inner }, false);
                    break;
                }
            }
        }
    }
}

/// The files that `mod NAME;` may mean, with the directories of their own modules.
fn candidates(place: &Place, dir: &Path, name: &str, path: Option<&str>, depth: usize) -> Vec<(PathBuf, PathBuf)> {
    if let Some(path) = path {
        let from = if depth == 0 { place.file.parent().unwrap_or_else(|| Path::new(".")) } else { dir };
        let file = from.join(path);
        let modules = file.parent().unwrap_or_else(|| Path::new(".")).to_path_buf();
        return vec![(file, modules)];
    }
    let flat = dir.join(format!("{name}.rs"));
    let nested = dir.join(name).join("mod.rs");
    vec![(flat, dir.join(name)), (nested, dir.join(name))]
}

pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
