//! `bigdecimal`: `BigDecimal` is a `decimal`.

use bigdecimal::BigDecimal;
use bigdecimal::num_bigint::BigInt;
use cassette_rows::DataType;

use crate::api::embedded::{FromCql, ToCql, Written};
use crate::basics::error::{Result, bail_invalid};

impl ToCql for BigDecimal {
    fn write(&self, data_type: &DataType, out: &mut Vec<u8>) -> Result<Written> {
        if *data_type != DataType::Decimal {
            bail_invalid!("cannot convert BigDecimal: expected a value of CQL's decimal, found {data_type}");
        }
        let (unscaled, scale) = self.as_bigint_and_exponent();
        let Ok(scale) = i32::try_from(scale) else {
            bail_invalid!(
                "cannot convert BigDecimal: its scale of {scale} is out of the range of CQL's decimal"
            );
        };
        out.extend_from_slice(&scale.to_be_bytes());
        out.extend_from_slice(&unscaled.to_signed_bytes_be());
        Ok(Written::Bytes)
    }
}

impl FromCql for BigDecimal {
    fn read(data_type: &DataType, bytes: Option<&[u8]>) -> Result<Self> {
        if *data_type != DataType::Decimal {
            bail_invalid!(
                "cannot convert to BigDecimal: expected a value of CQL's decimal, found {data_type}"
            );
        }
        let Some((scale, unscaled)) = bytes.and_then(|bytes| bytes.split_first_chunk::<4>()) else {
            bail_invalid!("the value is null: read it as an Option");
        };
        Ok(Self::new(BigInt::from_signed_bytes_be(unscaled), i32::from_be_bytes(*scale).into()))
    }
}
