//! Injected faults as errors of the protocol.

use std::net::IpAddr;

use cassette_database::{FaultError, FaultFailure, Injected};
use cassette_protocol::{
    Request,
    response::{Error, ErrorDetail, Failures, WriteType},
};

/// Returns the error of a failure; `None` if the connection is closed instead.
pub(crate) fn error(failure: &FaultFailure, node: IpAddr) -> Option<Error> {
    let FaultFailure::Error(error, message) = failure else { return None };
    let detail = match *error {
        FaultError::ReadTimeout { consistency, received, required, data_present } => {
            ErrorDetail::ReadTimeout { consistency, received, block_for: required, data_present }
        }
        FaultError::WriteTimeout { consistency, received, required, write_type } => {
            ErrorDetail::WriteTimeout {
                consistency,
                received,
                block_for: required,
                write_type: named(write_type),
                contentions: 1,
            }
        }
        FaultError::ReadFailure { consistency, received, required, failures, reason, data_present } => {
            ErrorDetail::ReadFailure {
                consistency,
                received,
                block_for: required,
                failures: reasons(failures, reason, node),
                data_present,
            }
        }
        FaultError::WriteFailure { consistency, received, required, failures, reason, write_type } => {
            ErrorDetail::WriteFailure {
                consistency,
                received,
                block_for: required,
                failures: reasons(failures, reason, node),
                write_type: named(write_type),
            }
        }
        FaultError::CasWriteUnknown { consistency, received, required } => {
            ErrorDetail::CasWriteUnknown { consistency, received, block_for: required }
        }
        FaultError::Unavailable { consistency, required, alive } => {
            ErrorDetail::Unavailable { consistency, required, alive }
        }
        FaultError::Overloaded => ErrorDetail::Overloaded,
        FaultError::Bootstrapping => ErrorDetail::IsBootstrapping,
        FaultError::ServerError => ErrorDetail::ServerError,
        FaultError::TruncateError => ErrorDetail::TruncateError,
    };
    Some(Error::new(detail, message.clone()))
}

/// Limits the page of a request, if its fault does.
pub(crate) fn limit_page(request: &mut Request, injected: &Injected) {
    let Some(size) = injected.page_size else { return };
    match request {
        Request::Query(query) => query.parameters.page_size = Some(size),
        Request::Execute(execute) => execute.parameters.page_size = Some(size),
        _ => {}
    }
}

/// Returns the write type with a name that rules can have, which are those of the protocol.
fn named(name: &str) -> WriteType {
    WriteType::from_name(name).unwrap_or(WriteType::Simple)
}

/// Returns as many nodes with this reason: the first is `node`, others have the next addresses.
fn reasons(failures: i32, reason: u16, node: IpAddr) -> Failures {
    let address = |index: u32| match node {
        IpAddr::V4(first) => IpAddr::V4(first.to_bits().wrapping_add(index).into()),
        IpAddr::V6(first) => IpAddr::V6(first.to_bits().wrapping_add(index.into()).into()),
    };
    Failures::Reasons(
        (0..u32::try_from(failures).unwrap_or(1)).map(|index| (address(index), reason)).collect(),
    )
}
