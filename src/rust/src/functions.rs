//! The functions of one file: their names, and where the caller inserts text.
use std::fmt::Write;

use proc_macro2::{Span, TokenStream};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    AttrStyle, Attribute, Block, Expr, FnArg, ImplItemFn, ItemFn, ItemImpl, ItemMod, ItemStatic, ItemTrait, Pat, ReturnType, Signature,
    Stmt, TraitItemFn, Type,
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
    let mut finder = Finder { out, scopes: vec![Scope::Path(names.to_vec())], skipped, inline: 0, open: 0, blocked: 0 };
    finder.visit_file(file);
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

    fn function(&mut self, attributes: &[Attribute], signature: &Signature, block: &Block) {
        let bare = signature.ident.to_string();
        let bare = bare.trim_start_matches("r#").to_string();
        let reason = if self.blocked > 0 { "in an allocator, or in a module inside a function" } else { reason(attributes, signature) };
        let mut edits = Edits(Vec::new());
        if reason.is_empty() {
            edits_of(attributes, signature, block, &mut edits);
        }
        let list: Vec<_> = edits.0.iter().map(|(at, what)| format!("{}:{what}", at + self.skipped)).collect();
        let line = signature.ident.span().start().line;
        let _ = writeln!(self.out, "fn\t{}\t{bare}\t{line}\t{reason}\t{}\t{}", one_line(&self.qualified(&bare)), self.inline, list.join(" "));
        let scope = self.inside(&bare);
        self.scopes.push(scope);
        self.open += 1;
        visit::visit_block(self, block);
        self.open -= 1;
        self.scopes.pop();
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
        visit::visit_item_mod(self, item);
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
        visit::visit_item_impl(self, item);
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
            let _ = writeln!(self.out, "alloc\t{}", list.join(" "));
        }
        visit::visit_item_static(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.scopes.push(Scope::Type(item.ident.to_string()));
        visit::visit_item_trait(self, item);
        self.scopes.pop();
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
    if signature.asyncness.is_some() {
        let output = match &signature.output {
            ReturnType::Default => "()".to_string(),
            ReturnType::Type(_, of) => one_line(&text_of(of.span())),
        };
        edits.put(begin, format!("a,{}", output.replace(' ', "\u{1}")));
        edits.put(start_of(block.brace_token.span.close()), "z");
        return;
    }
    edits.put(begin, "b");
    for argument in &signature.inputs {
        if let FnArg::Typed(typed) = argument {
            if let Pat::Ident(pattern) = &*typed.pat {
                if pattern.by_ref.is_none() && pattern.subpat.is_none() && pattern.attrs.is_empty() && typed.attrs.is_empty() {
                    argument_edit(begin, pattern, &typed.ty, edits);
                }
            }
        }
    }
    if let Some(opening) = opening_of(&signature.output) {
        let mut results = Results { edits, opening: &opening };
        results.visit_block(block);
        results.tail(block);
    }
    // Of equal offsets, the first stays first.
    edits.0.sort_by_key(|(at, _)| *at);
}

/// A primitive argument passes through the probe. Any other one is moved into a variable, so that it is
/// dropped before the function ends.
fn argument_edit(begin: usize, pattern: &syn::PatIdent, of: &Type, edits: &mut Edits) {
    let letter = if pattern.mutability.is_some() { 'm' } else { 'v' };
    match primitive(of) {
        Some(of) if IN_REGISTERS.contains(&of.as_str()) => edits.put(begin, format!("{letter},{},{of}", pattern.ident)),
        Some(_) => {}
        None if matches!(of, Type::Reference(_) | Type::Ptr(_)) => {}
        None => edits.put(begin, format!("{letter},{}", pattern.ident)),
    }
}

fn primitive(of: &Type) -> Option<String> {
    let Type::Path(path) = of else { return None };
    let name = path.path.get_ident()?.to_string();
    PRIMITIVES.contains(&name.as_str()).then(|| name)
}

/// What goes before a result, so that it is there when the function ends. None if it is nothing, or
/// a pointer to what was there before.
fn opening_of(output: &ReturnType) -> Option<String> {
    let ReturnType::Type(_, of) = output else { return None };
    let mut of = &**of;
    while let Type::Paren(syn::TypeParen { elem, .. }) | Type::Group(syn::TypeGroup { elem, .. }) = of {
        of = elem;
    }
    match of {
        Type::Never(_) | Type::Reference(_) | Type::Ptr(_) | Type::ImplTrait(_) => None,
        Type::Tuple(tuple) if tuple.elems.is_empty() => None,
        _ if returns_impl(output) => None,
        _ => Some(match primitive(of) {
            Some(name) if IN_REGISTERS.contains(&name.as_str()) => format!("s,{name}"),
            _ => "h".to_string(),
        }),
    }
}

/// Finds the results of a function: its last expression, and those of `return`.
struct Results<'a> {
    edits: &'a mut Edits,
    opening: &'a str,
}

impl Results<'_> {
    fn wrap(&mut self, span: Span) {
        let range = span.byte_range();
        if !range.is_empty() {
            self.edits.put(range.start, self.opening);
            self.edits.put(range.end, "c");
        }
    }

    fn tail(&mut self, block: &Block) {
        match block.stmts.last() {
            Some(Stmt::Expr(Expr::Return(_), None)) | None => {}
            Some(Stmt::Expr(expression, None)) if !has_attributes(expression) => self.wrap(expression.span()),
            Some(Stmt::Macro(call)) if call.semi_token.is_none() && call.attrs.is_empty() => self.wrap(call.mac.span()),
            _ => {}
        }
    }
}

/// An attribute of an expression is not allowed in an argument.
fn has_attributes(expression: &Expr) -> bool {
    text_of(expression.span()).trim_start().starts_with('#')
}

impl<'ast> Visit<'ast> for Results<'_> {
    fn visit_expr_return(&mut self, expression: &'ast syn::ExprReturn) {
        if let Some(value) = &expression.expr {
            if !has_attributes(value) {
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
