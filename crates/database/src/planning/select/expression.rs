//! Expressions that are evaluated for each row.

use std::borrow::Cow;
use std::sync::Arc;

use cassette_cql::values::functions::ScalarFunction;
use cassette_rows::types::{collection, vector};
use cassette_rows::{ColumnMetadata, DataType, DecoratedKey, key};

use super::CurrentRow;
use super::cell_times::{self, CellTime};
use super::masked::MaskedColumn;
use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::planning::context::BindContext;
use crate::planning::terms::Bound;

/// An expression over the columns of a row, the bound terms of an execution, and aggregates.
#[derive(Debug)]
pub(crate) enum Expression {
    Column(Arc<ColumnMetadata>),
    /// A column with a mask.
    Masked(Box<MaskedColumn>),
    /// The term with this index.
    Term(usize),
    /// The result of the aggregate with this index.
    Aggregate(usize),
    Call(Box<ScalarFunction>, Vec<Expression>),
    Token(Vec<Expression>),
    /// A time of the cells of a column or part of a column.
    CellTime(CellTime, Box<Expression>),
    /// Field `index` of a UDT.
    Field(Box<Expression>, usize),
    /// The element of a set or the value of a map at a key.
    Element(Box<Collection>, usize),
    /// The elements or entries of a set or map between two keys, both inclusive.
    Slice(Box<Collection>, Option<usize>, Option<usize>),
    /// A tuple or UDT; `None` for omitted items.
    Items(Vec<Option<Expression>>),
    List(Vec<Expression>),
    /// A set, with the type of its elements.
    Set(DataType, Vec<Expression>),
    /// A map, with the type of its keys.
    Map(DataType, Vec<(Expression, Expression)>),
    /// A vector, with the type of its elements.
    Vector(DataType, Vec<Expression>),
}

/// A set or map of which a part is selected.
#[derive(Debug)]
pub(crate) struct Collection {
    pub of: Expression,
    /// Its type.
    pub data_type: DataType,
}

/// The input of an evaluation.
#[derive(Clone, Copy)]
pub(crate) struct Input<'i, 'e> {
    /// `None` for aggregates without rows.
    pub row: Option<CurrentRow<'i>>,
    /// The bound terms.
    pub terms: &'i [Bound<'e>],
    /// The results of the aggregates.
    pub aggregates: &'i [Option<Vec<u8>>],
    pub cx: &'i BindContext<'e>,
}

/// A value; `None` is null.
pub(crate) type Value<'i> = Option<Cow<'i, [u8]>>;

impl Input<'_, '_> {
    /// Returns the bytes of a bound term; `None` if it is null or unset.
    fn term(&self, index: usize) -> Option<&[u8]> {
        self.terms.get(index).and_then(Bound::value)
    }

    /// Whether it is a marker without a value.
    fn is_unset(&self, expression: &Expression) -> bool {
        matches!(expression, Expression::Term(index) if self.terms.get(*index).is_some_and(Bound::is_unset))
    }

    /// Seconds since 1970.
    pub fn now(&self) -> u32 {
        self.cx.now_seconds
    }
}

impl Expression {
    /// Returns the value for `input`.
    pub fn evaluate<'i>(&'i self, input: Input<'i, '_>) -> Result<Value<'i>> {
        Ok(match self {
            Self::Column(column) => input.row.and_then(|row| row.value(column, input.now())),
            Self::Masked(masked) => match input.row {
                Some(row) => masked.value(row, input.cx)?,
                None => None,
            },
            Self::Term(index) => match input.terms.get(*index) {
                Some(Bound::Value(bytes)) => Some(Cow::Borrowed(bytes)),
                _ => None,
            },
            Self::Aggregate(index) => {
                input.aggregates.get(*index).and_then(Option::as_deref).map(Cow::Borrowed)
            }
            Self::Call(function, arguments) => {
                if arguments.iter().any(|argument| input.is_unset(argument)) {
                    bail_invalid!("Invalid unset value for argument in call to function {}", function.name);
                }
                let values = evaluate_each(arguments, input)?;
                let values: Vec<Option<&[u8]>> = values.iter().map(Option::as_deref).collect();
                function.evaluate(&values, input.cx)?.map(Cow::Owned)
            }
            Self::Token(arguments) => match input.row {
                // Usually the arguments are the row's own key, whose token is known.
                Some(row) if is_whole_key(arguments) => {
                    Some(Cow::Owned(row.partition.key.token().0.to_be_bytes().to_vec()))
                }
                _ => token(&evaluate_each(arguments, input)?)?,
            },
            Self::CellTime(what, of) => cell_times::of(of, *what, input)?.write(*what).map(Cow::Owned),
            Self::Field(of, index) => self.field(of, *index, input)?,
            Self::Element(collection, key) => {
                let Some(key) = input.terms.get(*key).and_then(Bound::value) else { return Ok(None) };
                collection.element(key, input)?
            }
            Self::Slice(collection, from, to) => {
                let Some(whole) = collection.of.evaluate(input)? else { return Ok(None) };
                collection.slice(whole, from.and_then(|i| input.term(i)), to.and_then(|i| input.term(i)))
            }
            Self::Items(items) => {
                let mut out = Vec::new();
                for item in items {
                    let value = item.as_ref().map(|item| item.evaluate(input)).transpose()?.flatten();
                    collection::write_item(&mut out, value.as_deref());
                }
                Some(Cow::Owned(out))
            }
            Self::List(elements) => Some(Cow::Owned(list(&evaluate_each(elements, input)?))),
            Self::Set(element_type, elements) => {
                let mut values = evaluate_each(elements, input)?;
                refuse_nulls(values.iter())?;
                values.sort_by(|a, b| compare(element_type, a, b));
                values.dedup_by(|a, b| compare(element_type, a, b).is_eq());
                Some(Cow::Owned(list(&values)))
            }
            Self::Map(key_type, entries) => Some(Cow::Owned(map(key_type, entries, input)?)),
            Self::Vector(element_type, elements) => {
                let mut out = Vec::new();
                for value in evaluate_each(elements, input)? {
                    match value {
                        Some(value) => vector::write_element(&mut out, element_type, &value),
                        None => bail_invalid!("null is not supported inside vectors"),
                    }
                }
                Some(Cow::Owned(out))
            }
        })
    }

    /// Whether it is the same for all rows of an execution.
    fn is_constant(&self) -> bool {
        match self {
            Self::Term(_) => true,
            Self::Call(function, arguments) => function.is_pure && arguments.iter().all(Self::is_constant),
            Self::Items(items) => items.iter().flatten().all(Self::is_constant),
            Self::List(elements) | Self::Set(_, elements) | Self::Vector(_, elements) => {
                elements.iter().all(Self::is_constant)
            }
            Self::Map(_, entries) => entries.iter().all(|(k, v)| k.is_constant() && v.is_constant()),
            _ => false,
        }
    }

    /// Adds the calls in it that may fail for constants alone: the outermost ones with a constant
    /// result, and those of functions that check their arguments, after the calls in these.
    pub fn constant_calls<'s>(&'s self, out: &mut Vec<&'s Self>) {
        match self {
            Self::Call(_, arguments) if !arguments.is_empty() && self.is_constant() => out.push(self),
            Self::Call(function, arguments) if function.checks_arguments() => {
                arguments.iter().for_each(|argument| argument.constant_calls(out));
                out.push(self);
            }
            Self::Call(_, parts)
            | Self::Token(parts)
            | Self::List(parts)
            | Self::Set(_, parts)
            | Self::Vector(_, parts) => parts.iter().for_each(|part| part.constant_calls(out)),
            Self::Items(items) => items.iter().flatten().for_each(|item| item.constant_calls(out)),
            Self::Map(_, entries) => entries.iter().for_each(|(key, value)| {
                key.constant_calls(out);
                value.constant_calls(out);
            }),
            Self::Field(of, _) | Self::CellTime(_, of) => of.constant_calls(out),
            Self::Element(collection, _) | Self::Slice(collection, ..) => collection.of.constant_calls(out),
            Self::Column(_) | Self::Masked(_) | Self::Term(_) | Self::Aggregate(_) => {}
        }
    }

    /// Evaluates the constants among the arguments of a call, and the call if all are.
    pub fn check_constants(&self, input: Input<'_, '_>) -> Result<()> {
        match self {
            Self::Call(function, arguments) if !self.is_constant() => {
                for (index, argument) in arguments.iter().enumerate().filter(|(_, each)| each.is_constant()) {
                    function.check_argument(index, argument.evaluate(input)?.as_deref())?;
                }
                Ok(())
            }
            constant => constant.evaluate(input).map(drop),
        }
    }

    /// Returns field `index` of the UDT `of`.
    fn field<'i>(&'i self, of: &'i Expression, index: usize, input: Input<'i, '_>) -> Result<Value<'i>> {
        if let Self::Column(column) = of
            && column.data_type.is_multi_cell()
        {
            let path = u16::try_from(index).unwrap_or(u16::MAX).to_be_bytes();
            let cells = input.row.into_iter().flat_map(|row| row.cells(column, input.now()));
            return Ok(cells
                .filter(|cell| cell.path == Some(&path))
                .map(|cell| Cow::Borrowed(cell.value))
                .next());
        }
        let Some(whole) = of.evaluate(input)? else { return Ok(None) };
        Ok(match whole {
            Cow::Borrowed(bytes) => collection::read_tuple(bytes).nth(index).flatten().map(Cow::Borrowed),
            Cow::Owned(bytes) => {
                collection::read_tuple(&bytes).nth(index).flatten().map(|v| Cow::Owned(v.to_vec()))
            }
        })
    }
}

impl Collection {
    /// Returns the type of the keys.
    fn key_type(&self) -> &DataType {
        self.data_type.path_type().unwrap_or(&self.data_type)
    }

    fn is_map(&self) -> bool {
        matches!(self.data_type, DataType::Map { .. })
    }

    fn element<'i>(&'i self, key: &[u8], input: Input<'i, '_>) -> Result<Value<'i>> {
        let key_type = self.key_type();
        if let Expression::Column(column) = &self.of
            && column.data_type.is_multi_cell()
        {
            let mut cells = input.row.into_iter().flat_map(|row| row.cells(column, input.now()));
            let cell = cells.find(|cell| cell.path.is_some_and(|path| key_type.compare(path, key).is_eq()));
            let value =
                |cell: cassette_rows::Cell<'i>| if self.is_map() { Some(cell.value) } else { cell.path };
            return Ok(cell.and_then(value).map(Cow::Borrowed));
        }
        let Some(whole) = self.of.evaluate(input)? else { return Ok(None) };
        let is_key = |(k, _): &(&[u8], &[u8])| key_type.compare(k, key).is_eq();
        Ok(match whole {
            Cow::Borrowed(bytes) => self.entries(bytes).find(is_key).map(|(_, value)| Cow::Borrowed(value)),
            Cow::Owned(bytes) => {
                self.entries(&bytes).find(is_key).map(|(_, value)| Cow::Owned(value.to_vec()))
            }
        })
    }

    /// Returns the index of `key` among the entries of `whole`.
    pub fn index_of(&self, whole: &[u8], key: &[u8]) -> Option<usize> {
        self.entries(whole).position(|(k, _)| self.key_type().compare(k, key).is_eq())
    }

    /// Returns the indexes of the entries between two keys, both inclusive.
    pub fn indexes(&self, whole: &[u8], from: Option<&[u8]>, to: Option<&[u8]>) -> std::ops::Range<usize> {
        let key_type = self.key_type();
        let before = |(key, _): &(&[u8], &[u8])| from.is_some_and(|from| key_type.compare(key, from).is_lt());
        let until = |(key, _): &(&[u8], &[u8])| to.is_none_or(|to| key_type.compare(key, to).is_le());
        let start = self.entries(whole).take_while(before).count();
        let count = self.entries(whole).skip(start).take_while(until).count();
        start..start + count
    }

    fn slice<'i>(&self, whole: Cow<'i, [u8]>, from: Option<&[u8]>, to: Option<&[u8]>) -> Value<'i> {
        if from.is_none() && to.is_none() {
            return Some(whole);
        }
        let range = self.indexes(&whole, from, to);
        // A non-frozen collection without elements is null.
        if range.is_empty() && self.data_type.is_multi_cell() {
            return None;
        }
        let mut out = Vec::with_capacity(whole.len());
        collection::write_count(&mut out, range.len());
        for (key, value) in self.entries(&whole).skip(range.start).take(range.len()) {
            collection::write_item(&mut out, Some(key));
            if self.is_map() {
                collection::write_item(&mut out, Some(value));
            }
        }
        Some(Cow::Owned(out))
    }

    /// Returns keys and values of a map; each element of a set twice.
    fn entries<'b>(&self, whole: &'b [u8]) -> impl Iterator<Item = (&'b [u8], &'b [u8])> + use<'b> {
        let is_map = self.is_map();
        let entries = is_map.then(|| collection::read_map(whole)).into_iter().flatten();
        let elements = (!is_map).then(|| collection::read_list(whole)).into_iter().flatten();
        entries.chain(elements.flatten().map(|element| (element, element)))
    }
}

fn evaluate_each<'i>(expressions: &'i [Expression], input: Input<'i, '_>) -> Result<Vec<Value<'i>>> {
    expressions.iter().map(|expression| expression.evaluate(input)).collect()
}

/// Whether these are the columns of the partition key. Their number and order were checked for
/// `token`.
fn is_whole_key(arguments: &[Expression]) -> bool {
    arguments.iter().enumerate().all(|(position, argument)| {
        matches!(argument, Expression::Column(column)
            if column.kind == cassette_rows::ColumnKind::PartitionKey && column.position == position)
    })
}

fn token(components: &[Value<'_>]) -> Result<Value<'static>> {
    let Some(components) = components.iter().map(Option::as_deref).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let key = key::compose(components.into_iter())
        .ok_or_else(|| DatabaseError::invalid("The arguments of token() are longer than a key can be"))?;
    Ok(Some(Cow::Owned(DecoratedKey::new(key).token().0.to_be_bytes().to_vec())))
}

fn list(values: &[Value<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    collection::write_count(&mut out, values.len());
    values.iter().for_each(|value| collection::write_item(&mut out, value.as_deref()));
    out
}

fn map(key_type: &DataType, entries: &[(Expression, Expression)], input: Input<'_, '_>) -> Result<Vec<u8>> {
    let mut values = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        values.push((key.evaluate(input)?, value.evaluate(input)?));
    }
    refuse_nulls(values.iter().map(|(key, _)| key))?;
    // A stable sort keeps equal keys in order, so the later entry wins.
    values.sort_by(|a, b| compare(key_type, &a.0, &b.0));
    values.dedup_by(|later, earlier| {
        let same = compare(key_type, &later.0, &earlier.0).is_eq();
        if same {
            std::mem::swap(later, earlier);
        }
        same
    });
    let mut out = Vec::new();
    collection::write_count(&mut out, values.len());
    for (key, value) in &values {
        collection::write_item(&mut out, key.as_deref());
        collection::write_item(&mut out, value.as_deref());
    }
    Ok(out)
}

fn refuse_nulls<'v>(mut values: impl Iterator<Item = &'v Value<'v>>) -> Result<()> {
    if values.any(Option::is_none) {
        bail_invalid!("null is not supported inside collections")
    } else {
        Ok(())
    }
}

fn compare(data_type: &DataType, a: &Value<'_>, b: &Value<'_>) -> std::cmp::Ordering {
    data_type.compare(a.as_deref().unwrap_or_default(), b.as_deref().unwrap_or_default())
}
