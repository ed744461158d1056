use proc_macro2::TokenStream;
use quote::quote;
use syn::DeriveInput;

use crate::fields::Struct;

type Expand = fn(&Struct<'_>) -> syn::Result<TokenStream>;

fn error(input: TokenStream, expand: Expand) -> String {
    let input: DeriveInput = syn::parse2(input).unwrap();
    let expanded = Struct::parse(&input).and_then(|parsed| expand(&parsed));
    expanded.expect_err("this cannot be derived").to_string()
}

fn expansion(input: TokenStream, expand: Expand) -> String {
    let input: DeriveInput = syn::parse2(input).unwrap();
    Struct::parse(&input).and_then(|parsed| expand(&parsed)).unwrap().to_string().replace(' ', "")
}

#[test]
fn only_structs_with_named_fields_are_accepted() {
    let expected = "expected a struct with named fields";
    assert_eq!(
        error(
            quote!(
                enum E {
                    A,
                }
            ),
            crate::from_row::expand
        ),
        expected
    );
    assert_eq!(
        error(
            quote!(
                struct S(i32);
            ),
            crate::bind_values::expand
        ),
        expected
    );
}

#[test]
fn unknown_and_contradicting_attributes_are_rejected() {
    let unknown = error(
        quote!(
            struct S {
                #[cassette(renamed = "b")]
                a: i32,
            }
        ),
        crate::from_row::expand,
    );
    assert_eq!(unknown, "unknown attribute: expected rename = \"…\", flatten or skip");
    let both = error(
        quote!(
            struct S {
                #[cassette(skip, flatten)]
                a: i32,
            }
        ),
        crate::from_row::expand,
    );
    assert_eq!(both, "expected one of rename, flatten and skip");
    let on_struct = error(
        quote!(
            #[cassette(skip)]
            struct S {
                a: i32,
            }
        ),
        crate::from_row::expand,
    );
    assert_eq!(on_struct, "unknown attribute: expected crate = path");
}

#[test]
fn two_fields_with_one_name_are_rejected() {
    let input = quote!(
        struct S {
            a: i32,
            #[cassette(rename = "a")]
            b: i32,
        }
    );
    assert_eq!(
        error(input, crate::bind_values::expand),
        "duplicate name: expected one field for `a`, found two"
    );
}

#[test]
fn fields_of_a_user_defined_type_are_not_flattened() {
    let input = quote!(
        struct S {
            #[cassette(flatten)]
            a: T,
        }
    );
    assert!(error(input, crate::udt_value::expand).starts_with("cannot flatten"));
}

#[test]
fn raw_identifiers_and_another_crate_path_are_used() {
    let input = quote!(
        #[cassette(crate = my::cassette)]
        struct S {
            r#type: i32,
        }
    );
    let expanded = expansion(input, crate::from_row::expand);
    assert!(expanded.contains("implmy::cassette::convert::FromRowforS"), "{expanded}");
    assert!(expanded.contains("r#type:row.get::<i32>(\"type\")"), "{expanded}");
}
