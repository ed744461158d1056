//! `mask_null`, `mask_default`, `mask_replace`, `mask_inner`, `mask_outer` and `mask_hash`.

use cassette_rows::types::{CustomType, DataType};
use sha2::Digest;

use super::resolve::{Argument, TypedArgument, known_types, requires};
use super::{ArgumentCheck, Evaluated, ScalarFunction, Surroundings, Values, present};
use crate::values::literal::Assignment;
use crate::values::{ValueError, collections, timeuuid};

/// The names of the functions that columns can be masked with.
const NAMES: [&str; 6] =
    ["mask_null", "mask_default", "mask_replace", "mask_inner", "mask_outer", "mask_hash"];

/// Returns whether columns can be masked with the native function `name`.
pub fn is_masking(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Returns the masking function `name` for a column of type `data_type` and this number of further
/// arguments, whose types follow from the column's. `None` if no masking function has this name.
///
/// # Errors
/// Invalid, for columns and numbers of arguments that the function does not accept.
pub fn resolve_mask(
    name: &str,
    data_type: &DataType,
    arguments: usize,
) -> Result<Option<ScalarFunction>, ValueError> {
    let further: &[DataType] = match name {
        "mask_replace" => std::slice::from_ref(data_type),
        "mask_inner" | "mask_outer" => &[DataType::Int, DataType::Int, DataType::Text],
        "mask_hash" => &[DataType::Text],
        _ => &[],
    };
    // A number that is too high for the function must stay so.
    let further = further.iter().chain(std::iter::repeat(&DataType::Text)).take(arguments.min(NAMES.len()));
    let typed =
        |data_type: &DataType| TypedArgument { data_type: data_type.clone(), text: data_type.class_name() };
    let types: Vec<_> = std::iter::once(data_type).chain(further).map(typed).collect();
    let arguments: Vec<&dyn Argument> = types.iter().map(|argument| argument as &dyn Argument).collect();
    resolve(name, &arguments, Some(data_type))
}

/// The function called `name`.
pub(super) fn resolve(
    name: &str,
    arguments: &[&dyn Argument],
    receiver: Option<&DataType>,
) -> Result<Option<ScalarFunction>, ValueError> {
    let any = |signature: &str| known_types(&format!("system.{name}({signature})"), arguments, 1..=1, &[]);
    match name {
        "mask_null" => {
            let types = any("any")?;
            let returns = types[0].clone();
            Ok(Some(ScalarFunction::new(name, types, returns, |_, _, _| Ok(None))))
        }
        "mask_default" => {
            let types = any("any")?;
            let returns = types[0].clone();
            Ok(Some(ScalarFunction::new(name, types, returns, |function, _, _| {
                masked(&function.returns).map(Some)
            })))
        }
        "mask_replace" => resolve_replacement(name, arguments, receiver).map(Some),
        "mask_inner" | "mask_outer" => {
            let fallback = [DataType::Text, DataType::Int, DataType::Int, DataType::Text].map(Some);
            let signature = format!("system.{name}([text|varchar|ascii], int, int, [text])");
            let mut types = known_types(&signature, arguments, 3..=4, &fallback)?;
            if !matches!(types[0], DataType::Text | DataType::Ascii) {
                let required = "an argument of type [text|varchar|ascii]";
                return Err(requires(name, required, arguments[0], &types[0]));
            }
            for (at, required) in [(1, DataType::Int), (2, DataType::Int), (3, DataType::Text)] {
                convert(name, arguments, &mut types, at, required)?;
            }
            let returns = types[0].clone();
            let check = Some(check_padding as ArgumentCheck);
            Ok(Some(ScalarFunction { check, ..ScalarFunction::new(name, types, returns, mask_part) }))
        }
        "mask_hash" => {
            let fallback = [None, Some(DataType::Text)];
            let signature = format!("system.{name}(any, [text])");
            let mut types = known_types(&signature, arguments, 1..=2, &fallback)?;
            convert(name, arguments, &mut types, 1, DataType::Text)?;
            let check = Some(check_algorithm as ArgumentCheck);
            Ok(Some(ScalarFunction { check, ..ScalarFunction::new(name, types, DataType::Blob, hash) }))
        }
        _ => Ok(None),
    }
}

/// `mask_replace`, whose second argument replaces the first and has its type.
fn resolve_replacement(
    name: &str,
    arguments: &[&dyn Argument],
    receiver: Option<&DataType>,
) -> Result<ScalarFunction, ValueError> {
    let replaced = arguments.first().and_then(|argument| argument.known_type()).or(receiver.cloned());
    let fallback = [replaced.clone(), replaced];
    let types = known_types(&format!("system.{name}(any, any)"), arguments, 2..=2, &fallback)?;
    let replaced = types[0].clone();
    if !arguments[1].assignment(&replaced).is_assignable() {
        return Err(ValueError::invalid(format!(
            "Type error: {} cannot be passed as argument 1 of function system.{name} of type {replaced}",
            arguments[1]
        )));
    }
    let types = [replaced.clone(), replaced.clone()];
    Ok(ScalarFunction::new(name, types, replaced, |_, values, _| Ok(values[1].map(<[u8]>::to_vec))))
}

/// Changes the type of argument `at`, if it is present, to `required`. Rejects a type that cannot
/// be assigned to it.
fn convert(
    name: &str,
    arguments: &[&dyn Argument],
    types: &mut [DataType],
    at: usize,
    required: DataType,
) -> Result<(), ValueError> {
    let Some(current) = types.get_mut(at) else { return Ok(()) };
    if Assignment::of_type(current, &required) == Assignment::No {
        let what = format!("an argument of type {required}");
        return Err(requires(name, &what, arguments[at], current));
    }
    *current = required;
    Ok(())
}

/// `mask_hash`: the digest of the first argument, by the algorithm that the second one names.
fn hash(_: &ScalarFunction, values: &Values<'_>, _: &dyn Surroundings) -> Evaluated {
    let Some(value) = values[0] else { return Ok(None) };
    let digest = match values.get(1).copied().flatten() {
        Some(algorithm) => digest_of(algorithm)?,
        None => digest_by::<sha2::Sha256>,
    };
    Ok(Some(digest(value)))
}

fn check_algorithm(_: &ScalarFunction, index: usize, value: &[u8]) -> Result<(), ValueError> {
    if index == 1 { digest_of(value).map(drop) } else { Ok(()) }
}

/// Returns the digest of a value.
type DigestFunction = fn(&[u8]) -> Vec<u8>;

/// Returns one of Java's algorithms for digests, named in any case.
fn digest_of(algorithm: &[u8]) -> Result<DigestFunction, ValueError> {
    let algorithm = String::from_utf8_lossy(algorithm);
    Ok(match algorithm.to_ascii_uppercase().as_str() {
        "MD5" => digest_by::<md5::Md5>,
        "SHA-1" | "SHA1" | "SHA" => digest_by::<sha1::Sha1>,
        "SHA-224" | "SHA224" => digest_by::<sha2::Sha224>,
        "SHA-256" | "SHA256" => digest_by::<sha2::Sha256>,
        "SHA-384" | "SHA384" => digest_by::<sha2::Sha384>,
        "SHA-512" | "SHA512" => digest_by::<sha2::Sha512>,
        "SHA-512/224" | "SHA512/224" => digest_by::<sha2::Sha512_224>,
        "SHA-512/256" | "SHA512/256" => digest_by::<sha2::Sha512_256>,
        _ => return Err(ValueError::invalid(format!("Hash algorithm not found: {algorithm}"))),
    })
}

fn digest_by<D: Digest>(value: &[u8]) -> Vec<u8> {
    D::digest(value).to_vec()
}

/// Returns the mask of all values of the type.
fn masked(data_type: &DataType) -> Result<Vec<u8>, ValueError> {
    use DataType::*;
    Ok(match data_type {
        Ascii | Text => b"****".to_vec(),
        Blob | Empty => Vec::new(),
        Boolean | TinyInt | VarInt => vec![0],
        SmallInt => vec![0; 2],
        Int | Float | Inet => vec![0; 4],
        BigInt | Counter | Double | Time | Timestamp => vec![0; 8],
        Date => (1_u32 << 31).to_be_bytes().to_vec(),
        Decimal => vec![0; 5],
        Duration => vec![0; 3],
        Uuid => vec![0; 16],
        Custom(custom) if **custom == CustomType::LexicalUuid => vec![0; 16],
        Custom(_) => Vec::new(),
        TimeUuid => timeuuid::min_at_millis(0).to_vec(),
        List { .. } | Set { .. } | Map { .. } => collections::build_list(&[]),
        Tuple(items) => masked_items(items.iter())?,
        Udt { definition, .. } => masked_items(definition.fields.iter().map(|(_, field)| field))?,
        Vector { element, dimension } => {
            let item = masked(element)?;
            let elements: Vec<_> = (0..*dimension).map(|_| item.clone()).collect();
            collections::build_vector(element, *dimension, &elements)?
        }
    })
}

fn masked_items<'a>(types: impl Iterator<Item = &'a DataType>) -> Result<Vec<u8>, ValueError> {
    let items: Result<Vec<_>, _> = types.map(|item| masked(item).map(Some)).collect();
    Ok(collections::build_tuple(&items?))
}

/// Rejects paddings of more or less than one character.
fn check_padding(function: &ScalarFunction, index: usize, value: &[u8]) -> Result<(), ValueError> {
    let text = String::from_utf8_lossy(value);
    match (index, text.chars().count()) {
        (3, 1) | (0..=2, _) => Ok(()),
        (_, count) => Err(ValueError::invalid(format!(
            "The padding argument for function system.{} should be single-character, but '{text}' has {count} \
             characters.",
            function.name
        ))),
    }
}

/// Replaces the characters inside, or outside, of a prefix and a suffix of these lengths.
fn mask_part(function: &ScalarFunction, values: &Values<'_>, _: &dyn Surroundings) -> Evaluated {
    let Some(bytes) = values[0] else { return Ok(None) };
    let count = |index: usize| {
        let bytes = present(values, index).and_then(|bytes| bytes.try_into().ok());
        i64::from(bytes.map_or(0, i32::from_be_bytes))
    };
    let padding = values.get(3).copied().flatten().map(String::from_utf8_lossy);
    let padding = padding.and_then(|text| text.chars().next()).unwrap_or('*');
    // As Java encodes a character that an ascii cannot contain.
    let is_ascii = function.returns == DataType::Ascii;
    let padding = if is_ascii && !padding.is_ascii() { '?' } else { padding };
    let text = String::from_utf8_lossy(bytes);
    let (begin, end) = (count(1), text.chars().count() as i64 - 1 - count(2));
    let inner = function.name == "mask_inner";
    let masked: String = (0..)
        .zip(text.chars())
        .map(|(i, c)| if (begin <= i && i <= end) == inner { padding } else { c })
        .collect();
    Ok(Some(masked.into_bytes()))
}
