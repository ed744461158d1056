//! A struct with its attributes, as all macros read it.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Field, Fields, GenericParam, Generics, Ident, LitStr, Path, Type, parse_quote};

/// A struct with named fields.
pub struct Struct<'a> {
    pub name: &'a Ident,
    generics: &'a Generics,
    /// The crate `cassette` in the code that is generated.
    pub cassette: TokenStream,
    pub members: Vec<Member<'a>>,
}

/// A field and what its attributes make of it.
pub struct Member<'a> {
    pub ident: &'a Ident,
    pub ty: &'a Type,
    pub role: Role,
}

pub enum Role {
    /// A value with a name in CQL.
    Named(String),
    Flatten,
    Skip,
}

impl<'a> Struct<'a> {
    pub fn parse(input: &'a DeriveInput) -> syn::Result<Self> {
        let Data::Struct(data) = &input.data else {
            return Err(syn::Error::new_spanned(&input.ident, "expected a struct with named fields"));
        };
        let Fields::Named(fields) = &data.fields else {
            return Err(syn::Error::new_spanned(&input.ident, "expected a struct with named fields"));
        };
        let members = fields.named.iter().map(Member::parse).collect::<syn::Result<Vec<_>>>()?;
        for (index, member) in members.iter().enumerate() {
            let Role::Named(name) = &member.role else { continue };
            if members[..index].iter().any(|other| matches!(&other.role, Role::Named(n) if n == name)) {
                let message = format!("duplicate name: expected one field for `{name}`, found two");
                return Err(syn::Error::new_spanned(member.ident, message));
            }
        }
        let cassette = crate_path(input)?.map_or_else(|| quote!(::cassette), ToTokens::into_token_stream);
        Ok(Self { name: &input.ident, generics: &input.generics, cassette, members })
    }

    /// `impl<…> bound for Name<…> where … { body }`; `bound` also holds for each parameter that is
    /// a type.
    pub fn implement(
        &self,
        implemented: &TokenStream,
        bound: &TokenStream,
        body: &TokenStream,
    ) -> TokenStream {
        let mut generics = self.generics.clone();
        for parameter in &mut generics.params {
            if let GenericParam::Type(parameter) = parameter {
                parameter.bounds.push(parse_quote!(#bound));
            }
        }
        let (impl_generics, _, where_clause) = generics.split_for_impl();
        let (_, type_generics, _) = self.generics.split_for_impl();
        let name = self.name;
        quote! {
            #[automatically_derived]
            impl #impl_generics #implemented for #name #type_generics #where_clause {
                #body
            }
        }
    }

    /// The members with names, and their names.
    pub fn named(&self) -> impl Iterator<Item = (&'a Ident, &str)> {
        self.members.iter().filter_map(|member| match &member.role {
            Role::Named(name) => Some((member.ident, name.as_str())),
            Role::Flatten | Role::Skip => None,
        })
    }
}

impl<'a> Member<'a> {
    fn parse(field: &'a Field) -> syn::Result<Self> {
        let Some(ident) = &field.ident else {
            return Err(syn::Error::new_spanned(field, "expected a field with a name"));
        };
        let mut role = None;
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("cassette")) {
            attribute.parse_nested_meta(|meta| {
                let parsed = if meta.path.is_ident("rename") {
                    Role::Named(meta.value()?.parse::<LitStr>()?.value())
                } else if meta.path.is_ident("flatten") {
                    Role::Flatten
                } else if meta.path.is_ident("skip") {
                    Role::Skip
                } else {
                    return Err(meta.error("unknown attribute: expected rename = \"…\", flatten or skip"));
                };
                match role.replace(parsed) {
                    Some(_) => Err(meta.error("expected one of rename, flatten and skip")),
                    None => Ok(()),
                }
            })?;
        }
        let role = role.unwrap_or_else(|| Role::Named(ident.unraw().to_string()));
        Ok(Self { ident, ty: &field.ty, role })
    }
}

/// The path in `#[cassette(crate = path)]`.
fn crate_path(input: &DeriveInput) -> syn::Result<Option<Path>> {
    let mut path = None;
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("cassette")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("unknown attribute: expected crate = path"));
            }
            path = Some(meta.value()?.call(Path::parse_mod_style)?);
            Ok(())
        })?;
    }
    Ok(path)
}
