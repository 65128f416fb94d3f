//! The functions of one file: their names, and where the caller inserts text.
use std::fmt::Write;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    AttrStyle, Attribute, Block, ExprAsync, FnArg, ImplItemFn, ItemFn, ItemImpl, ItemMod, ItemStatic, ItemTrait, Meta, Pat,
    ReturnType, Signature, TraitItemFn, Type,
};

use crate::crates::one_line;

/// The source text of a span.
fn text_of(span: Span) -> String {
    span.source_text().unwrap_or_default()
}

const PRIMITIVES: [&str; 17] = [
    "f32", "f64", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "bool", "char", "str",
];
/// Of these, a register holds the value.
const IN_REGISTERS: [&str; 14] =
    ["f32", "f64", "u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize", "bool", "char"];

pub fn describe(file: &syn::File, names: &[String], skipped: usize, out: &mut String) {
    let mut finder = Finder { out, scopes: vec![Scope::Path(names.to_vec())], skipped, inline: 0, open: 0, blocked: 0, conditions: Vec::new(), blocks: vec![0] };
    finder.visit_file(file);
}

/// What `#[cfg(...)]` among ATTRIBUTES asks for. A test is compiled for the test harness only.
pub fn conditions_of(attributes: &[Attribute]) -> Vec<String> {
    attributes.iter().filter_map(condition).collect()
}

fn condition(attribute: &Attribute) -> Option<String> {
    match (&attribute.meta, attribute.path().segments.last()) {
        (Meta::List(list), _) if list.path.is_ident("cfg") => Some(one_line(&list.tokens.to_string())),
        (_, Some(last)) if last.ident == "test" || last.ident == "bench" => Some("test".to_string()),
        _ => None,
    }
}

/// One condition for all of CONDITIONS; empty if there is none.
pub fn all_of(conditions: &[String]) -> String {
    match conditions {
        [] => String::new(),
        [one] => one.clone(),
        several => format!("all({})", several.join(", ")),
    }
}

/// What a function's name begins with.
enum Scope {
    /// Modules and functions around it.
    Path(Vec<String>),
    /// `Type` or `<Type as Trait>`: people leave the modules out.
    Type(String),
}

struct Finder<'a> {
    out: &'a mut String,
    scopes: Vec<Scope>,
    /// Bytes of the file before the parsed text.
    skipped: usize,
    /// Modules around this place that are in the same file.
    inline: usize,
    /// Functions around this place.
    open: usize,
    /// Why all functions here are left alone: they are in a module inside of a function, or in an allocator.
    blocked: usize,
    /// Conditions in this file under which this place is compiled.
    conditions: Vec<String>,
    /// The number of async blocks so far in each function around this place.
    blocks: Vec<usize>,
}

struct Edits(Vec<(usize, String)>);

impl Edits {
    fn put(&mut self, at: usize, what: impl Into<String>) {
        self.0.push((at, what.into()));
    }
}

impl Finder<'_> {
    fn qualified(&self, bare: &str) -> String {
        match self.scopes.last() {
            Some(Scope::Type(name)) => format!("{name}::{bare}"),
            Some(Scope::Path(names)) if !names.is_empty() => format!("{}::{bare}", names.join("::")),
            _ => bare.to_string(),
        }
    }

    fn inside(&self, name: &str) -> Scope {
        let mut names = match self.scopes.last() {
            Some(Scope::Path(names)) => names.clone(),
            Some(Scope::Type(name)) => vec![name.clone()],
            None => Vec::new(),
        };
        names.push(name.to_string());
        Scope::Path(names)
    }

    /// Visits what is below ATTRIBUTES.
    fn under(&mut self, attributes: &[Attribute], visit: impl FnOnce(&mut Self)) {
        let before = self.conditions.len();
        self.conditions.extend(conditions_of(attributes));
        visit(self);
        self.conditions.truncate(before);
    }

    fn write(&mut self, bare: &str, line: usize, reason: &str, edits: &Edits, block: &Block) {
        let list: Vec<_> = edits.0.iter().map(|(at, what)| format!("{}:{what}", at + self.skipped)).collect();
        let last = block.brace_token.span.close().start().line;
        let name = one_line(&self.qualified(bare));
        let condition = all_of(&self.conditions);
        let _ = writeln!(self.out, "fn\t{name}\t{bare}\t{line}\t{reason}\t{}\t{}\t{condition}\t{last}", self.inline, list.join(" "));
    }

    fn inside_of(&mut self, bare: &str, block: &Block) {
        let scope = self.inside(bare);
        self.scopes.push(scope);
        self.blocks.push(0);
        self.open += 1;
        visit::visit_block(self, block);
        self.open -= 1;
        self.blocks.pop();
        self.scopes.pop();
    }

    fn function(&mut self, attributes: &[Attribute], signature: &Signature, block: &Block) {
        let bare = signature.ident.to_string();
        let bare = bare.trim_start_matches("r#").to_string();
        let reason = if self.blocked > 0 { "in an allocator, or in a module inside a function" } else { reason(attributes, signature) };
        let mut edits = Edits(Vec::new());
        if reason.is_empty() {
            edits_of(attributes, signature, block, &mut edits);
        }
        self.under(attributes, |finder| {
            finder.write(&bare, signature.ident.span().start().line, reason, &edits, block);
            finder.inside_of(&bare, block);
        });
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.attrs, &item.sig, block);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let scope = self.inside(item.ident.to_string().trim_start_matches("r#"));
        let blocks = usize::from(self.open > 0);
        self.scopes.push(scope);
        self.inline += 1;
        self.blocked += blocks;
        self.under(&item.attrs, |finder| visit::visit_item_mod(finder, item));
        self.blocked -= blocks;
        self.inline -= 1;
        self.scopes.pop();
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let of = type_name(&item.self_ty);
        let name = match &item.trait_ {
            Some((_, path, _)) => format!("<{of} as {}>", path_name(path)),
            None => of,
        };
        let blocks = usize::from(item.trait_.as_ref().map_or(false, |(_, path, _)| path_name(path) == "GlobalAlloc"));
        self.scopes.push(Scope::Type(name));
        self.blocked += blocks;
        self.under(&item.attrs, |finder| visit::visit_item_impl(finder, item));
        self.blocked -= blocks;
        self.scopes.pop();
    }

    /// `#[global_allocator] static A: T = x;` becomes `static A: Counted<T> = Counted(x);`.
    fn visit_item_static(&mut self, item: &'ast ItemStatic) {
        if item.attrs.iter().any(|a| mentions(a, "global_allocator")) && self.blocked == 0 {
            let of = item.ty.span().byte_range();
            let value = item.expr.span().byte_range();
            let edits = [(of.start, "G"), (of.end, "g"), (value.start, "E"), (value.end, "c")];
            let list: Vec<_> = edits.iter().map(|(at, what)| format!("{}:{what}", at + self.skipped)).collect();
            let mut conditions = self.conditions.clone();
            conditions.extend(conditions_of(&item.attrs));
            let _ = writeln!(self.out, "alloc\t{}\t{}", list.join(" "), all_of(&conditions));
        }
        visit::visit_item_static(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.scopes.push(Scope::Type(item.ident.to_string()));
        self.under(&item.attrs, |finder| visit::visit_item_trait(finder, item));
        self.scopes.pop();
    }

    /// rustc has the same name for it.
    fn visit_expr_async(&mut self, expression: &'ast ExprAsync) {
        let number = self.blocks.last().copied().unwrap_or(0);
        let bare = format!("{{async_block#{number}}}");
        if self.blocked > 0 || !expression.attrs.is_empty() {
            return visit::visit_expr_async(self, expression);
        }
        if let Some(count) = self.blocks.last_mut() {
            *count += 1;
        }
        let range = expression.span().byte_range();
        let edits = Edits(vec![(range.start, "A".to_string()), (range.end, "c".to_string())]);
        self.write(&bare, expression.async_token.span.start().line, "", &edits, &expression.block);
        self.inside_of(&bare, &expression.block);
    }
}

/// The last part of a path, without what is generic: all instances are one row.
fn path_name(path: &syn::Path) -> String {
    path.segments.last().map(|s| s.ident.to_string()).unwrap_or_default()
}

fn type_name(of: &Type) -> String {
    match of {
        Type::Path(path) => path_name(&path.path),
        Type::Reference(reference) => format!("&{}", type_name(&reference.elem)),
        Type::Paren(inner) => type_name(&inner.elem),
        Type::Group(inner) => type_name(&inner.elem),
        other => one_line(&text_of(other.span())),
    }
}

/// Why piano leaves the function alone; empty if it does not.
fn reason(attributes: &[Attribute], signature: &Signature) -> &'static str {
    let has = |name: &str| attributes.iter().any(|a| mentions(a, name));
    if signature.constness.is_some() {
        return "a const fn, which the compiler may run";
    }
    if has("naked") {
        return "naked";
    }
    if has("panic_handler") || has("global_allocator") || has("alloc_error_handler") {
        return "part of the runtime";
    }
    if signature.asyncness.is_some() && returns_impl(&signature.output) {
        return "async, and returns impl Trait";
    }
    ""
}

/// `#[naked]`, `#[unsafe(naked)]`
fn mentions(attribute: &Attribute, name: &str) -> bool {
    if attribute.path().segments.last().map_or(false, |s| s.ident == name) {
        return true;
    }
    attribute.path().is_ident("unsafe") && attribute.meta.require_list().map_or(false, |l| holds(&l.tokens, name))
}

fn holds(tokens: &TokenStream, name: &str) -> bool {
    tokens.clone().into_iter().any(|t| t.to_string() == name)
}

fn returns_impl(output: &ReturnType) -> bool {
    struct Found(bool);
    impl<'ast> Visit<'ast> for Found {
        fn visit_type_impl_trait(&mut self, _: &'ast syn::TypeImplTrait) {
            self.0 = true;
        }
        fn visit_type_infer(&mut self, _: &'ast syn::TypeInfer) {
            self.0 = true;
        }
    }
    let mut found = Found(false);
    found.visit_return_type(output);
    found.0
}

fn start_of(span: Span) -> usize {
    span.byte_range().start
}

fn end_of(span: Span) -> usize {
    span.byte_range().end
}

fn edits_of(attributes: &[Attribute], signature: &Signature, block: &Block, edits: &mut Edits) {
    // Inner attributes come before any statement.
    let inner = attributes.iter().filter(|a| matches!(a.style, AttrStyle::Inner(_)));
    let open = end_of(block.brace_token.span.open());
    let begin = inner.map(|a| end_of(a.span())).max().unwrap_or(open).max(open);
    let end = start_of(block.brace_token.span.close());
    if signature.asyncness.is_some() {
        edits.put(begin, format!("a,{}", written(&signature.output)));
        edits.put(end, "z");
        return;
    }
    let has_result = can_be_named(&signature.output);
    edits.put(begin, "b");
    for argument in &signature.inputs {
        if let FnArg::Typed(typed) = argument {
            if let Pat::Ident(pattern) = &*typed.pat {
                if pattern.by_ref.is_none() && pattern.subpat.is_none() && pattern.attrs.is_empty() && typed.attrs.is_empty() {
                    argument_edit(begin, pattern, &typed.ty, has_result, edits);
                }
            }
        }
    }
    if has_result {
        let kind = result_kind(&signature.output);
        edits.put(begin, format!("r,{}", written(&signature.output)));
        edits.put(end, format!("e,{kind}"));
        if kind != "n" && kind != "u" {
            Results { edits, kind: &kind }.visit_block(block);
        }
    }
}

/// A type in one line, with `\x01` for blanks.
fn written(output: &ReturnType) -> String {
    match output {
        ReturnType::Default => "()".to_string(),
        ReturnType::Type(_, of) => one_line(&of.to_token_stream().to_string()).replace(' ', "\u{1}"),
    }
}

/// A primitive argument passes through the probe. Any other one passes through memory into a variable,
/// so that it is dropped before the function ends. This needs the block of the result around the body:
/// what the body's last expression borrows from the argument is then dropped before the argument.
fn argument_edit(begin: usize, pattern: &syn::PatIdent, of: &Type, has_result: bool, edits: &mut Edits) {
    let letter = if pattern.mutability.is_some() { 'm' } else { 'v' };
    match primitive(of) {
        Some(of) if IN_REGISTERS.contains(&of.as_str()) => edits.put(begin, format!("{letter},{},{of}", pattern.ident)),
        Some(_) => {}
        None if !has_result || matches!(of, Type::Reference(_) | Type::Ptr(_)) => {}
        None => edits.put(begin, format!("{letter},{}", pattern.ident)),
    }
}

fn primitive(of: &Type) -> Option<String> {
    let name = match of {
        Type::Path(path) => path.path.get_ident()?.to_string(),
        _ => return None,
    };
    PRIMITIVES.contains(&name.as_str()).then(|| name)
}

/// May a variable have the type of the result?
fn can_be_named(output: &ReturnType) -> bool {
    match output {
        ReturnType::Default => true,
        ReturnType::Type(_, of) => !matches!(**of, Type::Never(_)) && !returns_impl(output),
    }
}

/// How a result is kept from being computed after the function's end: `u` nothing to keep, `n` a pointer
/// to what was there before, `s,TYPE` a primitive value, `h` any other.
fn result_kind(output: &ReturnType) -> String {
    let mut of = match output {
        ReturnType::Default => return "u".to_string(),
        ReturnType::Type(_, of) => &**of,
    };
    while let Type::Paren(syn::TypeParen { elem, .. }) | Type::Group(syn::TypeGroup { elem, .. }) = of {
        of = elem;
    }
    match of {
        Type::Reference(_) | Type::Ptr(_) => "n".to_string(),
        Type::Tuple(tuple) if tuple.elems.is_empty() => "u".to_string(),
        _ => match primitive(of) {
            Some(name) if IN_REGISTERS.contains(&name.as_str()) => format!("s,{name}"),
            _ => "h".to_string(),
        },
    }
}

/// Finds the values of `return`.
struct Results<'a> {
    edits: &'a mut Edits,
    kind: &'a str,
}

impl Results<'_> {
    fn wrap(&mut self, span: Span) {
        let range = span.byte_range();
        if !range.is_empty() {
            self.edits.put(range.start, self.kind);
            self.edits.put(range.end, "c");
        }
    }
}

impl<'ast> Visit<'ast> for Results<'_> {
    fn visit_expr_return(&mut self, expression: &'ast syn::ExprReturn) {
        if let Some(value) = &expression.expr {
            if !text_of(value.span()).trim_start().starts_with('#') {
                self.wrap(value.span());
            }
        }
        visit::visit_expr_return(self, expression);
    }
    // Their `return` is their own.
    fn visit_expr_closure(&mut self, _: &'ast syn::ExprClosure) {}
    fn visit_expr_async(&mut self, _: &'ast syn::ExprAsync) {}
    fn visit_item(&mut self, _: &'ast syn::Item) {}
}
