//! The files of a crate: follows `mod name;` from the root file, by the rules of rustc.
use std::fmt::Write;
use std::path::{Component, Path, PathBuf};

use syn::{Attribute, Expr, Item, ItemMod, Lit, Meta};

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
    /// Conditions of the modules around it.
    conditions: Vec<String>,
}

/// The modules around a place in a file.
struct Around<'a> {
    /// Where the files of modules are.
    dir: &'a Path,
    names: &'a [String],
    conditions: &'a [String],
    depth: usize,
}

pub fn describe(root: &Path, out: &mut String) {
    let mut walk = Walk { out, seen: Vec::new() };
    let modules = root.parent().unwrap_or_else(|| Path::new(".")).to_path_buf();
    walk.file(&Place { file: root, modules, names: Vec::new(), conditions: Vec::new() }, true);
}

/// Does the crate do without std? Many that can do without have both `#![no_std]` and `extern crate std`.
fn is_without_std(file: &syn::File) -> bool {
    let is_bare = file.attrs.iter().any(|a| a.path().is_ident("no_std") || a.path().is_ident("no_core"));
    let names_std = file.items.iter().any(|item| matches!(item, Item::ExternCrate(named) if named.ident == "std"));
    is_bare && !names_std
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
            let std = if is_without_std(&parsed) { "no_std" } else { "std" };
            let _ = writeln!(self.out, "crate\t{name}\t{std}");
        }
        let mut conditions = place.conditions.clone();
        conditions.extend(functions::conditions_of(&parsed.attrs));
        let _ = writeln!(self.out, "file\t{name}\t{}", functions::all_of(&conditions));
        // syn removes these two before it parses: its offsets do not count them.
        let mark = if text.starts_with('\u{feff}') { 3 } else { 0 };
        let skipped = mark + parsed.shebang.as_ref().map_or(0, |line| line.len());
        functions::describe(&parsed, &place.names, skipped, self.out);
        let around = Around { dir: &place.modules, names: &place.names, conditions: &conditions, depth: 0 };
        self.modules(&parsed.items, place, &around);
    }

    /// Follows the modules among ITEMS, which are in PLACE.
    fn modules(&mut self, items: &[Item], place: &Place, around: &Around) {
        for item in items {
            if let Item::Mod(module) = item {
                self.module(module, place, around);
            }
        }
    }

    fn module(&mut self, module: &ItemMod, place: &Place, around: &Around) {
        let name = module.ident.to_string();
        let name = name.trim_start_matches("r#");
        let mut names = around.names.to_vec();
        names.push(name.to_string());
        let mut conditions = around.conditions.to_vec();
        conditions.extend(functions::conditions_of(&module.attrs));
        let path = path_of(&module.attrs);
        if let Some((_, items)) = &module.content {
            let dir = around.dir.join(path.as_deref().unwrap_or(name));
            let inside = Around { dir: &dir, names: &names, conditions: &conditions, depth: around.depth + 1 };
            return self.modules(items, place, &inside);
        }
        for (file, modules) in candidates(place, around.dir, name, path.as_deref(), around.depth) {
            if file.is_file() {
                return self.file(&Place { file: &file, modules, names, conditions }, false);
            }
        }
    }
}

/// The files that `mod NAME;` may mean, with the directories of their own modules.
fn candidates(place: &Place, dir: &Path, name: &str, path: Option<&str>, depth: usize) -> Vec<(PathBuf, PathBuf)> {
    if let Some(path) = path {
        let from = if depth == 0 { place.file.parent().unwrap_or_else(|| Path::new(".")) } else { dir };
        let file = normal(&from.join(path));
        let modules = file.parent().unwrap_or_else(|| Path::new(".")).to_path_buf();
        return vec![(file, modules)];
    }
    let flat = dir.join(format!("{name}.rs"));
    let nested = dir.join(name).join("mod.rs");
    vec![(flat, dir.join(name)), (nested, dir.join(name))]
}

/// Without `.` and `x/..`: a file has one name, also if two crates share it.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(out.components().last(), Some(Component::Normal(_))) => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
